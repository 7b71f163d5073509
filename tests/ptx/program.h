// PTX programs as data: kernels, decoded to instructions that warps run.
//
// The subset is what nvcc makes of Rondo's kernels: no calls, no atomics, no textures,
// one-dimensional blocks. Anything else is an error that names the kernel and the line, never a
// guess. Source: PTX ISA 9.0, https://docs.nvidia.com/cuda/parallel-thread-execution/
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::ptx {

constexpr int kLanes = 32;
using Lanes = std::uint32_t;  // bit i: lane i

struct Warp;
struct Instruction;
using Operation = void (*)(Warp&, const Instruction&, Lanes);

// An exchange is a plain operation that all lanes of a warp execute together.
enum class Kind : std::uint8_t { plain, exchange, branch, leave, barrier };

struct Instruction {
  Operation run = nullptr;  // nullptr unless plain or an exchange
  Kind kind = Kind::plain;
  bool guard_negated = false;
  int guard = -1;                       // a predicate, or -1
  std::array<std::int32_t, 6> slots{};  // operands in order: values or predicates
  std::int64_t displacement = 0;        // added to an address
  int target = -1;                      // of a branch
  int global_bytes = 0;                 // of global memory that a lane accesses
  bool is_move = false;                 // what ptxas makes no instruction of, in most cases
  std::string_view text;                // the statement
};

struct Constant {
  int slot;
  std::uint64_t bits;
};

struct Kernel {
  std::string name;  // mangled
  std::vector<Instruction> code;
  std::map<std::string, int, std::less<>> opcodes;  // how often each occurs
  std::vector<std::size_t> parameters;              // offsets of the arguments; sizes in parameter_bytes
  std::vector<std::size_t> parameter_bytes;
  std::size_t argument_bytes = 0, shared_bytes = 0, local_bytes = 0;
  int values = 0, predicates = 0;                             // numbers of slots
  std::vector<Constant> constants;                            // literals, which are slots that no one writes
  std::map<std::string, int, std::less<>> special_registers;  // "%tid.x" and others, with their slots
};

// Returns the text of each kernel of a module, by mangled name.
std::map<std::string, std::string, std::less<>> kernels_of(std::string_view module);

// Decodes a kernel. The result refers to `text`. Throws std::runtime_error for what is not in the
// subset.
Kernel decode(std::string_view text);

// --- operations by opcode ---

// Returns the operation of an opcode with its modifiers, such as "add.s32"; nullptr if it is not in
// the subset. `mov` with a list of registers is "mov.b32.pack" or "mov.b32.unpack".
Operation operation_of(const std::string& opcode);
Operation memory_operation_of(std::string_view opcode);  // ld and st

// --- what runs ---

struct Block {
  const Kernel* kernel = nullptr;
  std::vector<std::byte> shared;
  std::vector<std::byte> arguments;
};

struct Warp {
  Block* block = nullptr;
  std::vector<std::array<std::uint64_t, kLanes>> values;  // registers, one bit pattern a lane
  std::vector<Lanes> predicates;
  std::vector<std::byte> local;    // local_bytes for each lane
  std::array<int, kLanes> next{};  // index of a lane's next instruction
  Lanes alive = 0;
};

// Order in which the warps of a block run between two barriers.
enum class Order { ascending, descending };

struct Grid {
  unsigned x = 1, y = 1, z = 1, threads = 1;
  bool ends_only = false;  // runs the first block and the last four along x
};

// Counts the work of warps.
struct Work {
  std::int64_t instructions = 0;  // issued for any number of lanes, without moves
  std::int64_t global_bytes = 0;  // that lanes accessed
};

// Runs all blocks, one after the other. Lanes of a warp run in lockstep and diverge at branches;
// the lanes with the lowest next instruction run first. Throws std::runtime_error at a trap, a
// misaligned or out-of-bounds access, a division by zero, and a barrier or shuffle that a lane
// misses.
Work run(const Kernel& kernel, const Grid& grid, const void* const* arguments, Order order);

// --- the kernels of this program: runtime.cpp ---

struct LinkedKernel {
  std::string file;  // such as "adamw"
  std::string name;  // mangled
  std::string_view text;
};
// Returns the kernels of this program's own objects, from the PTX that they contain.
std::vector<LinkedKernel> linked_kernels();

// Returns `rms_kernel<float, true>` for the mangled name of one of Rondo's kernels.
std::string short_name(const std::string& mangled);

// Returns what each linked kernel did since the start, by mangled name.
const std::map<std::string, Work, std::less<>>& work_of_kernels();

// Names of the linked kernels that were not launched since the start.
std::vector<std::string> kernels_not_launched();

void set_order(Order order);
// Later launches run the first block and the last four along x, and no others.
void run_ends_only(bool ends_only);

// Replaces `from` everywhere in the text of each linked kernel whose name contains `kernel`, and
// restores the texts when destroyed. Throws std::runtime_error if there is no such kernel, or one
// without `from`.
class Mutation {
 public:
  Mutation(std::string_view kernel, std::string_view from, std::string_view to);
  ~Mutation();
  Mutation(const Mutation&) = delete;
  Mutation& operator=(const Mutation&) = delete;
};

}  // namespace rondo::ptx

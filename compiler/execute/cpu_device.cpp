// Results are created at their placements because the allocator hands these out (placed_results.h,
// Note [Placing results]). The pool consists of the plan's arenas and does not grow. Temporaries go
// to the room that the replay passes, or to the heap.
#include "compiler/execute/cpu_device.h"

#include <unistd.h>

#include <vector>

#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/planned_step.h"
#include "support/error.h"

namespace rondo {
namespace {

class CpuDevice final : public ReplayDevice {
 public:
  c10::Device device() const override { return c10::kCPU; }

  char* reserve(std::size_t bytes) override {
    pool_.push_back(std::make_unique<cpu_memory::Arena>(bytes));
    return pool_.back()->data();
  }
  char* reserve_on_host(std::size_t bytes) override { return reserve(bytes); }
  void release_pool() noexcept override { pool_.clear(); }
  std::int64_t pool_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& arena : pool_) bytes += arena->size();
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t free_bytes() const override { return sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE); }

  void enter() override {}
  void leave() noexcept override {}

  Issued issue(Instruction& instruction, std::span<const std::span<char>> room) override {
    Issued issued;
    const std::int64_t live = cpu_memory::live_bytes();
    const std::int64_t held = room.empty() ? 0 : blocks_held();
    {
      const cpu_memory::ResultPlacement placement(instruction.placements(), room);
      instruction.call();
      issued.heap_bytes = static_cast<std::int64_t>(placement.heap_bytes());
    }
    issued.copied_results = instruction.settle();
    issued.keeps_memory = cpu_memory::live_bytes() > live;
    if (!room.empty()) check_released(instruction, held);
    return issued;
  }
  void synchronize() override {}

  void begin_capture() override { refuse(); }
  Recording end_capture() override { refuse(); }
  void abandon_capture() noexcept override {}
  void launch(Recording) override { refuse(); }
  void destroy(Recording) noexcept override {}
  void count_up() override {}
  std::int64_t counted() const override { return 0; }

 private:
  [[noreturn]] static void refuse() { throw Error(ExitCode::internal, "the CPU cannot record"); }

  std::int64_t blocks_held() const {
    std::int64_t blocks = 0;
    for (const auto& arena : pool_) blocks += arena->blocks();
    return blocks;
  }

  // A kernel must not hold memory that the plan gives to the next op, which would overwrite it.
  // Collectives in flight hold their workspaces, and a thread of their group may release one
  // shortly after its wait. So the number of blocks may fall during a call, but must not rise.
  void check_released(const Instruction& instruction, std::int64_t held_before) const {
    if (blocks_held() <= held_before) return;
    throw Error(ExitCode::graph,
                instruction.node().op + " (module \"" + instruction.node().module +
                    "\") kept temporary memory after it returned, which a replay does not support; use "
                    "compile.executor = \"interpreter\"");
  }

  std::vector<std::unique_ptr<cpu_memory::Arena>> pool_;
};

}  // namespace

std::shared_ptr<ReplayDevice> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace rondo

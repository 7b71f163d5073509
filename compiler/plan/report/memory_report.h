// Reports the memory of a rank during one call of a graph: the category and lifetime of each
// storage, and the storages at the peak. It needs only the graph and its plan, before any weight
// exists. Plain C++.
//
// Bytes are those of the plan. A storage counts whole, rounded up to the plan's alignment, from the
// node that makes it to its last reader. Temporaries inside of kernels are not in a graph and not
// in a report.
//
//   total_bytes()   = sum of input_bytes + arena_bytes
//   arena_bytes     = live_peak_bytes + fragmentation_bytes()
//   live_peak_bytes = sum of peak_bytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/plan/memory_plan.h"

namespace rondo::ir {

// The category of a planned storage: the first match of this list. A read counts for the storage,
// through any view. Nodes whose module is a parameter's name, and nodes of bucketing passes, move
// parameters. Such a node works "from parameters alone" if it reads only parameters and results of
// such nodes. The other ones in the backward and the update are reductions.
enum class StorageCategory : std::uint8_t {
  // Made by a bucketing pass and read only by its nodes: buffers of a bucket's collective. Values
  // unpacked from them are gradients or weights.
  buckets,
  // Workspace of a collective while it runs (MemoryPlan::workspaces).
  workspaces,
  // Made in the backward and returned or read by the update or a reduction, or made by a reduction:
  // whole gradients and their shards.
  gradients,
  // Made in the forward or backward from parameters alone: gathered parameters, casts of
  // parameters.
  weights,
  // Made in the forward or backward by a module after the last block (norm, output, loss), and read
  // by no node of a block: logits, loss, and their gradients.
  head,
  // Made in the forward and read in the backward.
  saved_activations,
  // All others: short-lived values.
  temporaries,
};
constexpr std::size_t kStorageCategories = 7;
constexpr std::size_t kInputKinds = 5;                     // values of InputKind
std::string_view category_name(StorageCategory category);  // "saved activations"
std::string_view input_category_name(InputKind kind);      // "parameters"

// A planned storage, live at the nodes begin..end, both included. Where a result reuses the memory
// of an operand that dies at the same node, the operand's storage ends one node earlier, so that
// bytes count once.
struct PlannedStorage {
  ValueId value = kNoValue;  // its owner; of a workspace, the reduced value
  StorageCategory category = StorageCategory::temporaries;
  std::int64_t bytes = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;

  bool is_live_at(std::size_t node) const {
    return static_cast<std::size_t>(begin) <= node && node <= static_cast<std::size_t>(end);
  }
};

// A storage with its origin as text, so that a report can be read without its graph.
struct LargeStorage {
  PlannedStorage storage;
  std::string op;      // of the node that makes it
  std::string module;  // of the same node
  std::string type;    // of its owner: "bf16[4096,32000]"
};

// Saved activations of one module, summed over all blocks: "attention.wq". Outside of blocks, the
// module is the whole path.
struct SavedByModule {
  std::string module;
  std::int64_t bytes = 0;
  std::int32_t storages = 0;
};

struct MemoryReport {
  std::string graph;  // its name
  // Bytes by InputKind: parameters, optimizer state, buffers (including accumulated gradients), the
  // executor's copy of the batch, and values between bodies. All are live during the whole call.
  // Not rounded up.
  // Inputs in host memory are in host_input_bytes instead.
  std::array<std::int64_t, kInputKinds> input_bytes{}, host_input_bytes{};

  std::vector<PlannedStorage> storages;  // in schedule order
  IdMap<std::int64_t> live_bytes;        // at each node, including its results
  std::size_t peak_node = 0;             // the first node with the most live bytes
  std::string peak_at;                   // describes that node: "backward output, aten.mm.default"
  std::int64_t live_peak_bytes = 0;
  std::int64_t arena_bytes = 0;
  // Result of the largest all-gather. Gloo receives it in its own buffer, outside of the plan.
  std::int64_t largest_gather_bytes = 0;
  std::int64_t host_bytes = 0;                                // in host memory; not in other numbers
  std::array<std::int64_t, kStorageCategories> peak_bytes{};  // at the peak node
  std::vector<LargeStorage> largest;                          // at the peak node, largest first

  // Over the whole step, not only at the peak; largest first.
  std::vector<SavedByModule> saved;
  std::int64_t saved_bytes = 0;  // the sum over `saved`

  // Returns the arena bytes that exceed the live bytes at the peak.
  std::int64_t fragmentation_bytes() const { return arena_bytes - live_peak_bytes; }
  std::int64_t total_bytes() const;
  // Returns the bytes of host memory without those of inputs: offloaded activations.
  std::int64_t host_arena_bytes() const;
  std::int64_t bytes_of(InputKind kind) const { return input_bytes[static_cast<std::size_t>(kind)]; }
  std::int64_t peak_of(StorageCategory category) const {
    return peak_bytes[static_cast<std::size_t>(category)];
  }
};

// Reports in linear time except for sorting. `plan` is plan_memory(graph, ...). Describes at most
// `largest` storages.
MemoryReport report_memory(const Graph& graph, const MemoryPlan& plan, std::size_t largest = 20);

// Returns the report as lines without a newline: one row for each category that is not empty,
// fragmentation, and the three largest tensors at the peak.
std::vector<std::string> print_lines(const MemoryReport& report);

}  // namespace rondo::ir

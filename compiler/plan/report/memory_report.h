// What a rank's memory holds during one call of a graph: whose bytes they are, when they stand, and what
// stands at the peak. Made from the graph and its plan alone, before a weight exists. Plain C++.
//
// All bytes are the plan's: a storage counts whole, rounded up to the plan's alignment, from the node that
// makes it to the last node that needs it. What a kernel takes for itself while it runs is not in a graph,
// and not here.
//
//   total_bytes()   = the sum of input_bytes + arena_bytes
//   arena_bytes     = live_peak_bytes + fragmentation_bytes()
//   live_peak_bytes = the sum of peak_bytes
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

// Whose a planned storage is: the first of this list that fits. What is read is the storage, through any
// view. Parameters are moved by the nodes whose module is a parameter's name and by those of bucketing
// passes. Such a node works "out of parameters alone" if it reads nothing but parameters and results of such
// nodes; the others of them, in the backward and the update, are reductions.
enum class StorageCategory : std::uint8_t {
  // Made by a bucketing pass and read by its nodes alone: what a bucket's collective sends and receives. What
  // is unpacked from it belongs to the gradients or the weights.
  buckets,
  // What a collective takes for itself while it runs (MemoryPlan::workspaces).
  workspaces,
  // Made in the backward and read by the update, by a reduction, or returned; or made by a reduction: whole
  // gradients and their shards.
  gradients,
  // Made in the forward or backward out of parameters alone: gathered parameters, casts of parameters.
  weights,
  // Made in the forward or backward by a module that works behind the last block (norm, output, loss), and
  // read by no node of a block: logits, loss, and their gradients.
  head,
  // Made in the forward and read in the backward.
  saved_activations,
  // The rest: values of the moment.
  temporaries,
};
constexpr std::size_t kStorageCategories = 7;
constexpr std::size_t kInputKinds = 5;                     // of InputKind
std::string_view category_name(StorageCategory category);  // "saved activations"
std::string_view input_category_name(InputKind kind);      // "parameters"

// A planned storage, alive at the nodes begin..end, both included. Where a result takes over the memory of an
// operand that dies at the same node, the operand's storage ends one node earlier, so that bytes count once.
struct PlannedStorage {
  ValueId value = kNoValue;  // that owns it; of a workspace the value whose contributions it receives
  StorageCategory category = StorageCategory::temporaries;
  std::int64_t bytes = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;

  bool stands_at(std::size_t node) const {
    return static_cast<std::size_t>(begin) <= node && node <= static_cast<std::size_t>(end);
  }
};

// A storage in words, so that a report can be read without its graph.
struct LargeStorage {
  PlannedStorage storage;
  std::string op;      // of the node that makes it
  std::string module;  // of that node
  std::string type;    // of the value that owns it: "bf16[4096,32000]"
};

// Saved activations of one module over all blocks: "attention.wq"; outside of blocks the whole path.
struct SavedByModule {
  std::string module;
  std::int64_t bytes = 0;
  std::int32_t storages = 0;
};

struct MemoryReport {
  std::string graph;  // its name
  // Parameters, optimizer state, buffers (sums of gradients over microbatches are among them), batch (the
  // executor's copy) and what lasts between bodies, by InputKind. All of them stand all the time; not rounded
  // up.
  std::array<std::int64_t, kInputKinds> input_bytes{};

  std::vector<PlannedStorage> storages;  // in the order of the schedule
  IdMap<std::int64_t> live_bytes;        // at each node, its results included
  std::size_t peak_node = 0;             // the first of the nodes with the most live bytes
  std::string peak_at;                   // that node: "backward output, aten.mm.default"
  std::int64_t live_peak_bytes = 0;
  std::int64_t arena_bytes = 0;
  // Of one all-gather's result. Gloo receives it in a buffer of its own, beside the plan.
  std::int64_t largest_gather_bytes = 0;
  std::int64_t host_bytes = 0;  // of offloaded values, in the host's memory: part of no other number here
  std::array<std::int64_t, kStorageCategories> peak_bytes{};  // live at the peak node, by StorageCategory
  std::vector<LargeStorage> largest;                          // live at the peak node, largest first

  // Over the whole step, not only those that stand at the peak; largest first.
  std::vector<SavedByModule> saved;
  std::int64_t saved_bytes = 0;  // the sum over `saved`

  // What the arena is larger than the bytes alive in it at the peak.
  std::int64_t fragmentation_bytes() const { return arena_bytes - live_peak_bytes; }
  std::int64_t total_bytes() const;
  std::int64_t bytes_of(InputKind kind) const { return input_bytes[static_cast<std::size_t>(kind)]; }
  std::int64_t peak_of(StorageCategory category) const {
    return peak_bytes[static_cast<std::size_t>(category)];
  }
};

// In linear time but for sorting. `plan` is plan_memory(graph, ...); at most `largest` storages are
// described.
MemoryReport report_memory(const Graph& graph, const MemoryPlan& plan, std::size_t largest = 20);

// The report as lines of text, without a newline at the end: a row a category that is not empty, the arena's
// fragmentation, the total, and the three largest tensors at the peak.
std::vector<std::string> print_lines(const MemoryReport& report);

}  // namespace rondo::ir

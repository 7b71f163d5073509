// Where every value of a graph lives during a replay: one arena, fixed offsets, planned once. Plain C++.
//
// A storage is live from the node that defines its first value to the last node that reads any view of it;
// what a collective reads stays until its wait. Storages of inputs are not planned (they are the caller's);
// results of the return node stay to the end. Offsets are multiples of 64 bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir.h"

namespace rondo::ir {

struct MemoryPlan {
  // Offset of each value that owns a planned storage; -1 for views, inputs and empty values.
  std::vector<std::int64_t> offsets;
  std::int64_t arena_bytes = 0;
  std::vector<std::int32_t> ends;    // of each value with an offset: the last node at which its bytes stand
  std::int64_t live_peak_bytes = 0;  // the most bytes alive at one node: no plan can need less
  // Values on the host (Value::on_host) lie in an arena of their own; their offsets are into it, and nothing else
  // here counts them.
  std::int64_t host_arena_bytes = 0;
};

MemoryPlan plan_memory(const Graph& graph);

// What a storage of this type takes in an arena: its bytes, up to the next multiple of 64.
std::int64_t planned_bytes(const TensorType& type);

struct Gap {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
// Parts of the arena in which nothing stands while a node runs, results included: room for the kernel's
// temporaries.
std::vector<Gap> free_gaps(const Graph& graph, const MemoryPlan& plan, std::size_t node);

}  // namespace rondo::ir

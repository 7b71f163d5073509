// Where every value of a graph lives during a replay: one arena, fixed offsets, planned once. Plain C++.
//
// A storage is live from the node that defines its first value to the last node that reads any view of it;
// what a collective reads stays until its wait. Storages of inputs are not planned (they are the caller's),
// and what updates an input that the graph does not read is put where that stands; results of the return node
// stay to the end. Offsets are multiples of what the device aligns to. Equal graphs have equal plans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// How a device's memory differs from another's. All-reduces may take memory too, in proportion to the ranks
// of their group, which a graph does not say; it is left out.
struct MemoryNeeds {
  // A reduce-scatter receives the contributions of all ranks in a buffer as large as its operand.
  bool reduce_scatter_receives = false;
  // Every storage begins at a multiple of this, in bytes. That of the device's own allocator: libraries look
  // at alignment when they choose an algorithm, and a replay must get the one that an eager run gets.
  std::int64_t alignment = 64;
};
MemoryNeeds memory_needs(TargetDevice device);

// Memory that the collective of node `start` takes for itself, until and during node `wait`.
struct Workspace {
  NodeIndex start = 0;
  NodeIndex wait = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  // as it asks for them; it has planned_bytes of them
};

struct MemoryPlan {
  // Offset of each value that owns a planned storage; -1 for views, inputs and empty values.
  IdMap<std::int64_t> offsets;
  // Of each value that is made in the memory of an input, its index; -1 for the others.
  IdMap<std::int32_t> inputs;
  std::vector<Workspace> workspaces;  // by start
  std::int64_t arena_bytes = 0;
  std::int64_t alignment = 64;       // of every offset
  IdMap<NodeIndex> ends;             // of each value with an offset: the last node at which its bytes stand
  std::int64_t live_peak_bytes = 0;  // the most bytes alive at one node: no plan can need less
  // Values on the host (Value::on_host) lie in an arena of their own; their offsets are into it, and nothing
  // else here counts them.
  std::int64_t host_arena_bytes = 0;
};

MemoryPlan plan_memory(const Graph& graph, const MemoryNeeds& needs = {});

// What a storage takes in an arena: its bytes, up to the next multiple of `alignment`.
std::int64_t planned_bytes(const TensorType& type, std::int64_t alignment);
std::int64_t planned_bytes(std::int64_t bytes, std::int64_t alignment);

// Whether `result` may stand where `storage` does, which `operand` is in: `operand` is all of it, and alike.
bool may_stand_in(const Graph& graph, ValueId result, ValueId operand, ValueId storage);

struct Gap {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
// Parts of the arena in which nothing stands while a node runs, results included: room for the kernel's
// temporaries. Of each of `nodes`, which ascend.
std::vector<std::vector<Gap>> free_gaps(const Graph& graph, const MemoryPlan& plan,
                                        std::span<const NodeIndex> nodes);

}  // namespace rondo::ir

// Plans the memory of every value of a graph during a replay: fixed offsets in one arena. Plain
// C++.
//
// A storage is live from the node that defines its first value to the last node that reads any view
// of it. An operand of a collective is live until the wait. Storages of inputs belong to the caller
// and are not planned. An update is planned in the memory of its input if the graph does not read
// the input or, in host memory, no longer reads it. Results of the return node are live to the end.
// Offsets are multiples of the device's alignment. Equal graphs have equal plans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// The properties of a device's memory. All-reduces may need memory too, in proportion to the ranks
// of their group. A graph does not have that number, so this memory is not planned.
struct MemoryNeeds {
  // A reduce-scatter receives the contributions of all ranks in a buffer as large as its operand.
  bool reduce_scatter_receives = false;
  // Every storage begins at a multiple of this, in bytes. It is the alignment of the device's
  // allocator: libraries choose an algorithm by alignment, and a replay must get that of an eager
  // run.
  std::int64_t alignment = 64;
};
MemoryNeeds memory_needs(TargetDevice device);

// Memory that the collective of node `start` allocates, live up to and during node `wait`.
struct Workspace {
  NodeIndex start = 0;
  NodeIndex wait = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  // as requested; planned_bytes of them are reserved
};

struct MemoryPlan {
  // Offset of each value that owns a planned storage; -1 for views, inputs and empty values.
  IdMap<std::int64_t> offsets;
  // By value: the index of the input whose memory holds it, or -1.
  IdMap<std::int32_t> inputs;
  std::vector<Workspace> workspaces;  // by start
  std::int64_t arena_bytes = 0;
  std::int64_t alignment = 64;       // of every offset
  IdMap<NodeIndex> ends;             // by value with an offset: the last node at which it is live
  std::int64_t live_peak_bytes = 0;  // most bytes live at one node: a lower bound of any plan
  // Size of the separate arena of values on the host (Value::on_host). Their offsets are in it, and
  // no other member counts them.
  std::int64_t host_arena_bytes = 0;
};

MemoryPlan plan_memory(const Graph& graph, const MemoryNeeds& needs = {});

// Returns the bytes of a storage in an arena, rounded up to a multiple of `alignment`.
std::int64_t planned_bytes(const TensorType& type, std::int64_t alignment);
std::int64_t planned_bytes(std::int64_t bytes, std::int64_t alignment);

// Returns true if `result` may reuse `storage`, the storage of `operand`: `operand` has the type of
// `result` and covers the whole storage.
bool may_stand_in(const Graph& graph, ValueId result, ValueId operand, ValueId storage);

struct Gap {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
// Returns, for each of `nodes`, the parts of the arena that are free while the node runs, its
// results included. Temporaries of the kernel may use them. REQUIRES: `nodes` ascend.
std::vector<std::vector<Gap>> free_gaps(const Graph& graph, const MemoryPlan& plan,
                                        std::span<const NodeIndex> nodes);

}  // namespace rondo::ir

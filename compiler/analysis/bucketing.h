// Several collectives of parameters as one: what the bucketing passes share.
//
// A rank's part of a bucket is its shards one after the other, in the order of the parameters. Gathers stand
// where the first of them stood, reductions where the last did. A gathered bucket is [ranks, shards]; each
// parameter is copied out of it. Reduced shards stay in their buffer and are read there: by what computes
// each element alone, and by ops whose sums have one order at any address (rondo.sums_of_squares).
//
//   %3: f32[8] = all_gather_into_tensor(%0, 2, "dp")      %20: f32[10] = cat([%0, %1], 0)
//   %4: f32[8] views %3 = wait_tensor(%3)                 %21: f32[20] = all_gather_into_tensor(%20, 2, "dp")
//   ...                                             ->    %22: f32[20] views %21 = wait_tensor(%21)
//   %7: f32[12] = all_gather_into_tensor(%1, 2, "dp")     %23: f32[2,10] views %22 = view(%22, [2, 10])
//   %8: f32[12] views %7 = wait_tensor(%7)                %24: f32[2,4], %25: f32[2,6] =
//   split_with_sizes_copy(
//                                                                                          %23, [4, 6], 1)
//                                                         (readers of %4 read %24 as [8], of %8 %25 as [12])
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/notes.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/op_facts.h"

namespace rondo::ir {

// An all-gather of a parameter (of its shard, perhaps cast), or a reduce-scatter of its gradient, and its
// wait.
struct FsdpCollective {
  std::int32_t parameter = -1;  // index of the input
  NodeIndex start = kNoNode, wait = kNoNode;
  CollectiveKind kind = CollectiveKind::all_gather;  // or reduce_scatter
  Phase phase = Phase::forward;
  std::string group = {};
  std::int64_t ranks = 1;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;  // of the whole: gathered, or before it is reduced

  bool gathers() const { return kind == CollectiveKind::all_gather; }
};

// Those that can share a collective with others, in the order of their starts: the operand and result are
// flat, a gather depends on its parameter alone, a reduction is a sum of what depends on no other reduction.
// An all-reduce over replicas or a collective of activations is none.
std::vector<FsdpCollective> fsdp_collectives(const Graph& graph);

// Makes one sum over replicas of those that belong to one bucket: what was scattered together, or else
// Input::bucket. Returns one note with the counts. REQUIRES: no node overwrites anything.
Notes bucket_sums(Graph& graph, std::string_view origin);

// Whether a bucketing pass made the node.
bool made_by_bucketing(const Node& node);

// Makes one collective of all that have a bucket's name, phase, kind, group, number of ranks and dtype in
// common. `buckets`: a name for each of `collectives`, which are fsdp_collectives(graph); an empty one leaves
// it alone. `origin`: the pass. REQUIRES: no node overwrites anything. Returns one note with the counts.
Notes bucket_collectives(Graph& graph, const std::vector<FsdpCollective>& collectives,
                         const std::vector<std::string>& buckets, std::string_view origin);

}  // namespace rondo::ir

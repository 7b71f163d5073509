// Merges several collectives of parameters into one; shared by the bucketing passes.
//
// A rank's part of a bucket is its shards in the order of the parameters. A gather is placed
// at the start of its first member, a reduction at the start of its last one. A gathered
// bucket is [ranks, shards], and each parameter is copied out of it. Reduced shards stay in
// their buffer and are read there, by elementwise ops and by ops whose sums have one order at
// any address (rondo.sums_of_squares).
//
// Before:
//   %3: f32[8] = all_gather_into_tensor(%0, 2, "dp")
//   %4: f32[8] views %3 = wait_tensor(%3)
//   %7: f32[12] = all_gather_into_tensor(%1, 2, "dp")
//   %8: f32[12] views %7 = wait_tensor(%7)
// After, where readers of %4 read %24 as [8], and readers of %8 read %25 as [12]:
//   %20: f32[10] = cat([%0, %1], 0)
//   %21: f32[20] = all_gather_into_tensor(%20, 2, "dp")
//   %22: f32[20] views %21 = wait_tensor(%21)
//   %23: f32[2,10] views %22 = view(%22, [2, 10])
//   %24: f32[2,4], %25: f32[2,6] = split_with_sizes_copy(%23, [4, 6], 1)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/notes.h"
#include "compiler/ir/ir.h"
#include "compiler/ops/op.h"

namespace rondo::ir {

// An all-gather of a parameter's shard, perhaps cast, or a reduce-scatter of its gradient, with
// its wait.
struct FsdpCollective {
  std::int32_t parameter = -1;  // index of the input
  NodeIndex start = kNoNode, wait = kNoNode;
  CollectiveKind kind = CollectiveKind::all_gather;  // or reduce_scatter
  Phase phase = Phase::forward;
  std::string group = {};
  std::int64_t ranks = 1;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;  // of the gathered or unreduced tensor

  bool gathers() const { return kind == CollectiveKind::all_gather; }
};

// Returns the collectives that can share a bucket, in the order of their starts. Operand and result
// are flat. A gather depends on its parameter alone. A reduction is a sum that depends on no other
// reduction. Excludes all-reduces over replicas and collectives of activations.
std::vector<FsdpCollective> fsdp_collectives(const Graph& graph);

// Merges the sums over replicas of one bucket: the results of one reduce-scatter, or else
// Input::bucket. Returns one note with the counts. REQUIRES: no node overwrites anything.
Notes bucket_sums(Graph& graph, std::string_view origin);

// True where a bucketing pass made the node.
bool made_by_bucketing(const Node& node);

// Merges collectives with equal bucket name, phase, kind, group, number of ranks and dtype.
// `collectives` are fsdp_collectives(graph), and `buckets` names a bucket for each; an empty name
// leaves it alone. `origin` is the pass. Returns one note with the counts. REQUIRES: no node
// overwrites anything.
Notes bucket_collectives(Graph& graph, const std::vector<FsdpCollective>& collectives,
                         const std::vector<std::string>& buckets, std::string_view origin);

}  // namespace rondo::ir

// Merges the sums over replicas of one bucket into one sum (compiler/analysis/bucketing.h).
//
// Before:
//   %1: f32[4], %2: f32[6] = split_with_sizes(%0, [4, 6], 0)
//   %3: f32[4] = all_reduce(%1, "sum", "dp_replicate")
//   %4: f32[4] views %3 = wait_tensor(%3)
//   %5: f32[6] = all_reduce(%2, "sum", "dp_replicate")
//   %6: f32[6] views %5 = wait_tensor(%5)
// After:
//   %7: f32[10] = all_reduce(%0, "sum", "dp_replicate")
//   %8: f32[10] views %7 = wait_tensor(%7)
//   %9: f32[4], %10: f32[6] = split_with_sizes(%8, [4, 6], 0)
//
// The result of a bucket's reduce-scatter is summed before it is split. Without a reduce-scatter,
// gradients are packed first.
#include "compiler/analysis/bucketing.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes bucket_replica_sums(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  return bucket_sums(graph, "bucket_replica_sums");
}

}  // namespace rondo::ir

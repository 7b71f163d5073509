// Merges the gathers of a bucket's parameters, and the reductions of their gradients, into one
// collective each. Buckets are Input::bucket: a transformer block, all before the first, all after
// the last, or buckets of the user. compiler/analysis/bucketing.h shows the rewrite.
#include "compiler/analysis/bucketing.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes transformer_block_bucketing(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  const std::vector<FsdpCollective> collectives = fsdp_collectives(graph);
  if (collectives.empty()) return {};
  std::vector<std::string> buckets;
  for (const FsdpCollective& collective : collectives)
    buckets.push_back(graph.inputs[collective.parameter].bucket);
  return bucket_collectives(graph, collectives, buckets, "transformer_block_bucketing");
}

}  // namespace rondo::ir

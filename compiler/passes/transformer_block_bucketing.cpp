// The parameters of a bucket (Input::bucket: a transformer block, what stands before the first, what stands
// behind the last, or what the user asked for) are gathered by one collective, and their gradients reduced by
// one. compiler/analysis/bucketing.h shows the rewrite.
#include "compiler/analysis/bucketing.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes transformer_block_bucketing(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  const std::vector<FsdpCollective> collectives = fsdp_collectives(graph);
  if (collectives.empty()) return {};
  std::vector<std::string> buckets;
  for (const FsdpCollective& one : collectives) buckets.push_back(graph.inputs[one.parameter].bucket);
  return bucket_collectives(graph, collectives, buckets, "transformer_block_bucketing");
}

}  // namespace rondo::ir

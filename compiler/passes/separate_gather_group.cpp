// Gathers of parameters leave the group that they share with the reductions of gradients for one of their
// own.
//
//   %2 = all_gather_into_tensor(%1, 8, "dp")    ->    %2 = all_gather_into_tensor(%1, 8, "dp_gather")
//
// The collectives of one group run one after the other, so a gather that the next layer waits for would stand
// behind a reduction that nobody waits for yet.
#include "compiler/analysis/bucketing.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes separate_gather_group(Graph& graph, const CompileOptions& options) {
  if (options.gather_group_suffix.empty()) return unchanged();
  for (const FsdpCollective& one : fsdp_collectives(graph)) {
    if (!one.gathers()) continue;
    Node& start = graph.nodes[one.start];
    std::get<std::string>(start.args.at(facts(start.op).collective->group)) += options.gather_group_suffix;
  }
  return {};
}

}  // namespace rondo::ir

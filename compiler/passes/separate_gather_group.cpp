// Moves gathers of parameters out of the group of the gradient reductions, to a group of their own.
//
//   %2 = all_gather_into_tensor(%1, 8, "dp")  ->  %2 = all_gather_into_tensor(%1, 8, "dp_gather")
//
// The collectives of one group run one after the other. So a gather that the next layer waits for
// would be queued after a reduction that no node waits for yet.
#include "compiler/analysis/bucketing.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes separate_gather_group(Graph& graph, const CompileOptions& options) {
  if (options.gather_group_suffix.empty()) return unchanged();
  for (const FsdpCollective& collective : fsdp_collectives(graph)) {
    if (!collective.gathers()) continue;
    Node& start = graph.nodes[collective.start];
    std::get<std::string>(start.args.at(facts(start.op).collective->group)) += options.gather_group_suffix;
  }
  return {};
}

}  // namespace rondo::ir

// Gathers a parameter once that several nodes gather.
//
//   forward embedding.weight                        forward embedding.weight
//     %2 = all_gather_into_tensor(%0, 2, "dp")        %2 = all_gather_into_tensor(%0, 2, "dp")
//     %3 views %2 = wait_tensor(%2)                   %3 views %2 = wait_tensor(%2)
//   forward embedding.weight                  ->
//     %7 = all_gather_into_tensor(%0, 2, "dp")
//     %8 views %7 = wait_tensor(%7)                   (readers of %8 read %3)
//
// Merges gathers within a phase, since the gathered copy is freed between forward and backward.
// Merges over all phases for parameters whose copy is kept (CompileOptions::reshard_after_forward).
#include <algorithm>

#include "compiler/analysis/equal_nodes.h"
#include "compiler/analysis/parameters.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes deduplicate_unshard(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  const IdMap<std::int32_t> parameters = parameters_of_nodes(graph);
  const IdMap<bool> keeps = kept_gathered(graph, options.reshard_after_forward);
  const IdMap<bool> derived = values_of_parameters(
      graph, [&](std::size_t i) { return parameters[i] >= 0 && may_gather(graph.nodes[i]); });
  merge_equal_nodes(
      graph,
      [&](NodeIndex i) {
        const std::vector<ValueId>& results = graph.nodes[i].results;
        return parameters[i] >= 0 &&
               std::all_of(results.begin(), results.end(), [&](ValueId id) { return derived[id]; });
      },
      [&](NodeIndex a, NodeIndex b) {
        return graph.nodes[a].phase == graph.nodes[b].phase || (keeps[parameters[a]] && keeps[parameters[b]]);
      });
  return {};
}

}  // namespace rondo::ir

// A parameter that several places gather is gathered once.
//
//   forward embedding.weight                        forward embedding.weight
//     %2 = all_gather_into_tensor(%0, 2, "dp")        %2 = all_gather_into_tensor(%0, 2, "dp")
//     %3 views %2 = wait_tensor(%2)                   %3 views %2 = wait_tensor(%2)
//   forward embedding.weight                  ->
//     %7 = all_gather_into_tensor(%0, 2, "dp")
//     %8 views %7 = wait_tensor(%7)                   (readers of %8 read %3)
//
// Within a phase, since the gathered copy is freed between forward and backward; over all phases for the
// parameters whose copy is kept (CompileOptions::reshard_after_forward).
#include <algorithm>
#include <unordered_map>

#include "compiler/analysis/equal_nodes.h"
#include "compiler/analysis/parameters.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes deduplicate_unshard(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  const IdMap<std::int32_t> parameters = parameters_of_nodes(graph);
  const IdMap<bool> kept = kept_gathered(graph, options.reshard_after_forward);
  IdMap<ValueId> replacement(graph.values.size(), kNoValue);
  std::vector<bool> keep(graph.nodes.size(), true);
  std::unordered_multimap<std::size_t, const Node*> seen;
  const IdMap<bool> own = need_own_storage(graph);
  const IdMap<bool> derived = values_of_parameters(
      graph, [&](std::size_t i) { return parameters[i] >= 0 && may_gather(graph.nodes[i]); });
  const auto may_merge = [&](const Node& node) {
    return !node.results.empty() && std::all_of(node.results.begin(), node.results.end(),
                                                [&](ValueId id) { return derived[id] && !own[id]; });
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (parameters[i] < 0) continue;
    for_each_operand(node, [&](ValueId& id) {
      if (const ValueId other = replacement[id]; other != kNoValue) id = other;
    });
    if (!may_merge(node)) continue;
    const bool over_phases = kept[parameters[i]];
    const std::size_t hash = hash_node(node);
    const auto [begin, end] = seen.equal_range(hash);
    auto first = begin;
    while (first != end &&
           !((over_phases || first->second->phase == node.phase) && equal_nodes(graph, *first->second, node)))
      ++first;
    if (first == end) {
      seen.emplace(hash, &node);
      continue;
    }
    for (std::size_t k = 0; k < node.results.size(); ++k)
      replacement[node.results[k]] = first->second->results[k];
    keep[i] = false;
  }
  replace_uses(graph, replacement);
  keep_nodes(graph, keep);
  return {};
}

}  // namespace rondo::ir

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
#include <unordered_map>

#include "compiler/equal_nodes.h"
#include "compiler/op_facts.h"
#include "compiler/parameters.h"
#include "compiler/passes.h"

namespace rondo::ir {
namespace {

// Only what depends on parameters alone. A collective of anything else is not the same one twice.
class Unshards {
 public:
  explicit Unshards(const Graph& graph)
      : of_parameters_(graph.values.size(), false), own_(graph.values.size(), false) {
    const std::vector<ValueId> roots = storage_roots(graph);
    std::vector<bool> updates(graph.values.size(), false);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
      if (graph.outputs[i].updates >= 0)
        updates[static_cast<std::size_t>(
            roots[static_cast<std::size_t>(std::get<Use>(graph.return_node().args[i]).value)])] = true;
    for (std::size_t i = 0; i < roots.size(); ++i) own_[i] = updates[static_cast<std::size_t>(roots[i])];
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::parameter) of_parameters_[static_cast<std::size_t>(input.value)] = true;
  }
  // Called for each node in order. REQUIRES: the node's module is a parameter's name.
  bool take(const Node& node) {
    const Effect effect = facts(node.op).effect;
    bool all = effect == Effect::none || effect == Effect::collective_start || effect == Effect::wait;
    bool any = false;
    for_each_operand(node, [&](ValueId id) {
      any = true;
      all = all && of_parameters_[static_cast<std::size_t>(id)];
    });
    for (ValueId id : node.results) all = all && !own_[static_cast<std::size_t>(id)];
    if (!all || !any) return false;
    for (ValueId id : node.results) of_parameters_[static_cast<std::size_t>(id)] = true;
    return true;
  }

 private:
  std::vector<bool> of_parameters_;  // for each value
  std::vector<bool> own_;            // for each value: it becomes an update, which needs a storage of its own
};

}  // namespace

Notes deduplicate_unshard(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  const std::vector<std::int32_t> parameters = parameters_of_nodes(graph);
  const std::vector<bool> kept = kept_gathered(graph, options.reshard_after_forward);
  std::vector<ValueId> replacement(graph.values.size(), kNoValue);
  std::vector<bool> keep(graph.nodes.size(), true);
  std::unordered_multimap<std::size_t, const Node*> seen;
  Unshards unshards(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (parameters[i] < 0) continue;
    for_each_operand(node, [&](ValueId& id) {
      if (const ValueId other = replacement[static_cast<std::size_t>(id)]; other != kNoValue) id = other;
    });
    if (!unshards.take(node)) continue;
    const bool over_phases = kept[static_cast<std::size_t>(parameters[i])];
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
      replacement[static_cast<std::size_t>(node.results[k])] = first->second->results[k];
    keep[i] = false;
  }
  replace_uses(graph, replacement);
  keep_nodes(graph, keep);
  return {};
}

}  // namespace rondo::ir

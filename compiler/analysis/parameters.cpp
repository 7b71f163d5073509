#include "compiler/analysis/parameters.h"

#include <unordered_map>

#include "compiler/ops/op.h"

namespace rondo::ir {

IdMap<std::int32_t> parameters_of_nodes(const Graph& graph) {
  std::unordered_map<std::string_view, std::int32_t> index;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].kind == InputKind::parameter)
      index.emplace(graph.inputs[i].name, static_cast<std::int32_t>(i));
  IdMap<std::int32_t> parameters;
  parameters.reserve(graph.nodes.size());
  std::string_view module;  // of the last node: neighbours have the same
  std::int32_t last = -1;
  for (const Node& node : graph.nodes) {
    if (node.module != module) {
      const auto parameter = index.find(node.module);
      module = node.module;
      last = parameter == index.end() ? -1 : parameter->second;
    }
    parameters.push_back(last);
  }
  return parameters;
}

bool may_gather(const Node& node) {
  const Effect effect = facts(node.op).effect;
  return effect == Effect::none || effect == Effect::collective_start || effect == Effect::wait;
}

IdMap<bool> values_of_parameters(const Graph& graph, const std::function<bool(std::size_t)>& may) {
  IdMap<bool> derived(graph.values.size(), false);
  for (const Input& input : graph.inputs) derived[input.value] = input.kind == InputKind::parameter;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    bool all = may(i), any = false;
    for_each_operand(graph.nodes[i], [&](ValueId id) {
      any = true;
      all = all && derived[id];
    });
    if (all && any)
      for (ValueId id : graph.nodes[i].results) derived[id] = true;
  }
  return derived;
}

IdMap<bool> values_before_gathers(const Graph& graph) {
  return values_of_parameters(graph, [&](std::size_t i) {
    const Effect effect = facts(graph.nodes[i].op).effect;
    return effect == Effect::none || effect == Effect::wait ||
           is_collective(graph.nodes[i], CollectiveKind::all_reduce);
  });
}

IdMap<bool> kept_gathered(const Graph& graph, ReshardAfterForward reshard) {
  IdMap<bool> keeps(graph.inputs.size(), reshard == ReshardAfterForward::never);
  if (reshard != ReshardAfterForward::all_but_last) return keeps;
  const IdMap<std::int32_t> parameters = parameters_of_nodes(graph);
  std::string_view last;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (parameters[i] >= 0 && graph.nodes[i].phase == Phase::forward)
      last = graph.inputs[parameters[i]].bucket;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    keeps[i] = !last.empty() && graph.inputs[i].bucket == last;
  return keeps;
}

}  // namespace rondo::ir

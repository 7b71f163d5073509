#include "compiler/ops/op.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/def_use.h"

namespace rondo::ir {

const std::vector<Op>& all_ops() {
  static const auto* const ops = [] {
    auto* rows = new std::vector<Op>;
    for (const auto& family : {arithmetic_ops(), attention_ops(), collective_ops(), loss_ops(), norm_ops(),
                               optimizer_ops(), product_ops(), row_ops(), view_ops()})
      rows->insert(rows->end(), family.begin(), family.end());
    return rows;
  }();
  return *ops;
}

const Op& facts(std::string_view op) {
  static const auto* const table = [] {
    auto* rows = new std::unordered_map<std::string_view, const Op*>;
    for (const Op& row : all_ops()) rows->emplace(row.name, &row);
    return rows;
  }();
  static constexpr Op kUnknown;
  const auto row = table->find(op);
  return row == table->end() ? kUnknown : *row->second;
}

const Op& functional_facts(std::string_view op) {
  const std::size_t dot = op.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || op[dot - 1] != '_') return facts(op);
  return facts(std::string(op.substr(0, dot - 1)).append(op.substr(dot)));
}

std::string in_place_name(const Op& op) { return std::string(op.name).insert(op.name.rfind('.'), 1, '_'); }

IdMap<NodeIndex> waits_of_starts(const Graph& graph) {
  const DefUse def_use(graph);
  IdMap<NodeIndex> waits(graph.nodes.size(), kNoNode);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    if (facts(graph.nodes[i].op).effect != Effect::wait) continue;
    const ValueId awaited = std::get<Use>(graph.nodes[i].args[0]).value;
    if (const NodeIndex start = def_use.maker(awaited); start != kNoNode) waits[start] = i;
  }
  return waits;
}

IdMap<NodeIndex> last_needed(const Graph& graph, const IdMap<ValueId>& roots) {
  IdMap<NodeIndex> last(graph.values.size(), kNoNode);
  const IdMap<NodeIndex> waits = waits_of_starts(graph);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const auto need = [&](ValueId id, NodeIndex until) {
      NodeIndex& node = last[roots[id]];
      node = std::max(node, until);
    };
    for (ValueId id : graph.nodes[i].results) need(id, i);
    for_each_operand(graph.nodes[i], [&](ValueId id) { need(id, std::max(i, waits[i])); });
  }
  return last;
}

double flops(const Graph& graph, const Node& node) {
  const Op& op = facts(node.op);
  return op.is_heavy() ? op.flops(graph, node) : 0;
}

}  // namespace rondo::ir

// Node indices must stay valid while a pass searches for matches, so nothing moves before
// finish(). Nodes that are taken are flagged, new ones wait in a list before their anchor, and
// replaced values are in a table. take() checks all nodes before it flags any, so a match is
// taken completely or not at all.
#include "compiler/analysis/fusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/op.h"

namespace rondo::ir {

bool is_sum(const Node& node, ValueId a, ValueId b) {
  if (node.op != "aten.add.Tensor" || number(node, 2) != 1) return false;
  const ValueId first = operand(node, 0), second = operand(node, 1);
  return (first == a && second == b) || (first == b && second == a);
}

ValueId other_operand(const Node& node, ValueId known) {
  if (operand(node, 0) == known) return operand(node, 1);
  return operand(node, 1) == known ? operand(node, 0) : kNoValue;
}

bool is_cast(const Node& node, DType dtype) {
  return converts_on_device(node) && node.args[1] == Argument(dtype) &&
         std::holds_alternative<None>(node.args[6]);
}

Fusion::Fusion(Graph& graph, std::string_view pass)
    : graph_(graph),
      pass_(pass),
      def_use_(graph),
      taken_(graph.nodes.size(), false),
      inserted_(graph.nodes.size()),
      replacement_(graph.values.size(), kNoValue) {}

NodeIndex Fusion::maker(ValueId id, std::string_view op) const {
  const NodeIndex i = maker(id);
  return i != kNoNode && node(i).op == op ? i : kNoNode;
}

bool Fusion::take(const std::vector<NodeIndex>& nodes, const std::vector<ValueId>& results,
                  const std::vector<ValueId>& operands) {
  const auto holds = [](const auto& list, auto item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  const auto among = [&](NodeIndex i) { return holds(nodes, i); };
  for (ValueId id : operands)
    if (among(maker(id))) return false;
  for (NodeIndex i : nodes) {
    if (taken_[i]) return false;
    for (ValueId id : node(i).results)
      if (!holds(results, id) && !std::all_of(readers(id).begin(), readers(id).end(), among)) return false;
  }
  for (NodeIndex i : nodes) taken_[i] = true;
  return true;
}

std::vector<ValueId> Fusion::insert(NodeIndex before, std::string op, std::vector<Argument> args,
                                    std::vector<TensorType> types) {
  std::vector<ValueId> results;
  for (TensorType& type : types) {
    results.push_back(graph_.add_value({.type = std::move(type)}));
    replacement_.push_back(kNoValue);
  }
  const Node& like = node(before);
  inserted_[before].push_back(Node{.op = std::move(op),
                                   .args = std::move(args),
                                   .results = results,
                                   .phase = like.phase,
                                   .module = like.module,
                                   .origin = std::string(pass_)});
  return results;
}

Notes Fusion::finish() {
  IdMap<Node> old = std::move(graph_.nodes);
  graph_.nodes.clear();
  for (std::size_t i = 0; i < old.size(); ++i) {
    for (Node& node : inserted_[i]) graph_.nodes.push_back(std::move(node));
    if (!taken_[i]) graph_.nodes.push_back(std::move(old[i]));
  }
  replace_uses(graph_, replacement_);
  Notes notes;
  for (const auto& [pattern, count] : fused_) notes.push_back(fmt::format("fused {} {}", count, pattern));
  return notes;
}

}  // namespace rondo::ir

// Edits graphs by replacing uses of values from a node on. Nodes that lose their readers remain in
// the graph, which is valid except for the mistake.
#include "tests/compiler/verify/patient.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "compiler/ops/op.h"

namespace rondo::ir {

NodeIndex Patient::find(const Place& place) const {
  int left = place.number;
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op.starts_with(place.op) && node.module == place.module &&
        node.phase == place.phase.value_or(node.phase) && left-- == 0)
      return i;
  }
  throw std::runtime_error(fmt::format("{} has no {} number {} in {} {}", graph.name, place.op, place.number,
                                       place.phase ? phase_name(*place.phase) : "", place.module));
}

NodeIndex wait_for(const Graph& graph, NodeIndex start) {
  const ValueId started = graph.nodes[start].results.at(0);
  for (NodeIndex i = start + 1; i < graph.node_count(); ++i)
    if (facts(graph.nodes[i].op).effect == Effect::wait && operand(graph.nodes[i], 0) == started) return i;
  return kNoNode;
}

void Patient::replace(ValueId value, ValueId other, NodeIndex from) {
  for (NodeIndex i = from; i < graph.node_count(); ++i) {
    for_each_operand(graph.nodes[i], [&](ValueId& id) { id = id == value ? other : id; });
    for (const ValueId id : graph.nodes[i].results) {
      Value& result = graph.value(id);
      if (result.views == value) result.views = other;
      if (result.writes == value) result.writes = other;
    }
  }
}

ValueId Patient::insert(NodeIndex at, std::string op, std::vector<Argument> args, const TensorType& type,
                        ValueId views) {
  const ValueId result = graph.add_value({type, views, kNoValue});
  const Node& beside = graph.nodes[at];
  Node node{std::move(op), std::move(args), {result}, beside.phase, beside.module, "mutant"};
  graph.nodes.insert(graph.nodes.begin() + at, std::move(node));
  return result;
}

ValueId Patient::insert_sum(NodeIndex at, ValueId of, const std::string& group) {
  const TensorType type = contiguous(graph.value(of).type.dtype, graph.value(of).type.sizes);
  const ValueId started = insert(at, std::string(kAllReduce), {Use{of}, std::string("sum"), group}, type);
  return insert(at + 1, std::string(kWaitTensor), {Use{started}}, type, started);
}

ValueId Patient::insert_gather(NodeIndex at, ValueId of, std::int64_t ranks, const std::string& group) {
  TensorType type = contiguous(graph.value(of).type.dtype, graph.value(of).type.sizes);
  type.sizes[0] *= ranks;
  const ValueId started = insert(at, std::string(kAllGather), {Use{of}, ranks, group}, type);
  return insert(at + 1, std::string(kWaitTensor), {Use{started}}, type, started);
}

void Patient::leave_out(NodeIndex start) {
  const Collective collective = collective_of(graph.nodes[start]).value();
  const ValueId from = operand(graph.nodes[start], 0);
  const NodeIndex wait = wait_for(graph, start);
  const ValueId to = graph.nodes[wait].results[0];
  const TensorType type = graph.value(to).type;
  // A sum, or an exchange of pieces.
  if (graph.value(from).type == type) return replace(to, from, wait + 1);
  if (collective.kind == CollectiveKind::reduce_scatter) {
    const ValueId piece =
        insert(wait + 1, "aten.slice.Tensor",
               {Use{from}, std::int64_t{0}, std::int64_t{0}, type.sizes[0], std::int64_t{1}}, type, from);
    return replace(to, piece, wait + 2);
  }
  if (collective.kind != CollectiveKind::all_gather) throw std::runtime_error("nothing to put in its place");
  std::vector<ValueId> same(static_cast<std::size_t>(collective.ranks), from);
  const ValueId copies =
      insert(wait + 1, "aten.cat.default", {UseList{std::move(same)}, std::int64_t{0}}, type);
  replace(to, copies, wait + 2);
}

void Patient::name_group(NodeIndex start, const std::string& group) {
  const auto place = static_cast<std::size_t>(facts(graph.nodes[start].op).collective->group);
  graph.nodes[start].args[place] = group;
}

void Patient::name_reduction(NodeIndex start, const std::string& reduction) {
  graph.nodes[start].args[1] = reduction;
}

void Patient::sum_again(NodeIndex node, const std::string& group) {
  if (is_collective(facts(graph.nodes[node].op))) node = wait_for(graph, node);
  const ValueId once = graph.nodes[node].results[0];
  const ValueId again = insert_sum(node + 1, once, group);
  replace(once, again, node + 3);
}

void Patient::scale(NodeIndex node, double factor) {
  if (const NodeIndex wait = wait_for(graph, node); wait != kNoNode) node = wait;
  const ValueId result = graph.nodes[node].results[0];
  const TensorType& type = graph.value(result).type;
  const ValueId scaled =
      insert(node + 1, "aten.mul.Scalar", {Use{result}, factor}, contiguous(type.dtype, type.sizes));
  replace(result, scaled, node + 2);
}

void Patient::skip(NodeIndex node, std::size_t argument) {
  replace(graph.nodes[node].results[0], operand(graph.nodes[node], argument), node + 1);
}

void Patient::swap_results(NodeIndex node, std::size_t a, std::size_t b) {
  std::vector<ValueId>& results = graph.nodes[node].results;
  std::swap(results.at(a), results.at(b));
}

}  // namespace rondo::ir

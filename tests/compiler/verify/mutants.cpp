#include "tests/compiler/verify/mutants.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/def_use.h"
#include "compiler/ir/op_facts.h"
#include "compiler/ir/segments.h"

namespace rondo::ir {
namespace {

// A graph that a mistake is put into.
class Patient {
 public:
  explicit Patient(const Graph& healthy) : graph(healthy) {}

  // Readers of `value` from node `from` on read `other`; views of it are of that.
  void replace(ValueId value, ValueId other, NodeIndex from) {
    for (NodeIndex i = from; i < graph.node_count(); ++i) {
      for_each_operand(graph.nodes[i], [&](ValueId& id) { id = id == value ? other : id; });
      for (const ValueId id : graph.nodes[i].results) {
        Value& result = graph.value(id);
        if (result.views == value) result.views = other;
        if (result.writes == value) result.writes = other;
      }
    }
  }
  // A node in front of node `at`; its result.
  ValueId insert(NodeIndex at, std::string op, std::vector<Argument> args, const TensorType& type,
                 ValueId views = kNoValue) {
    const ValueId result = graph.add_value({type, views, kNoValue});
    const Node& beside = graph.nodes[at];
    Node node{std::move(op), std::move(args), {result}, beside.phase, beside.module, "mutant"};
    graph.nodes.insert(graph.nodes.begin() + at, std::move(node));
    return result;
  }
  // A sum over a group, with its wait.
  ValueId insert_sum(NodeIndex at, ValueId of, const std::string& group) {
    const TensorType type = contiguous(graph.value(of).type.dtype, graph.value(of).type.sizes);
    const ValueId started = insert(at, std::string(kAllReduce), {Use{of}, std::string("sum"), group}, type);
    return insert(at + 1, std::string(kWaitTensor), {Use{started}}, type, started);
  }

  Graph graph;
};

class Mutations {
 public:
  Mutations(const Graph& graph, const TakeMutant& take) : graph_(graph), uses_(graph), take_(take) {}

  void all() {
    for (NodeIndex i = 0; i + 1 < graph_.node_count(); ++i) {
      const Node& node = graph_.nodes[i];
      if (const auto collective = collective_of(node)) of_collective(i, *collective);
      if (node.op == "aten.div.Scalar" || node.op == "aten.div.Tensor") without_division(i);
      if (node.op.starts_with("aten.masked_fill")) without_mask(i);
      if (node.op == "rondo.local_ids.default") with_ids_of_all(i);
      if (node.op == "rondo.sums_of_squares.default") without_a_square(i);
      if (node.op.starts_with("rondo.adamw")) with_other_gradients(i);
      if (node.op == "aten.mm.default" || node.op == "rondo.grouped_mm.default") with_scaled_gradient(i);
    }
  }

 private:
  void take(const char* kind, NodeIndex at, const Patient& patient) {
    take_(kind, describe_place(graph_.nodes[at]), patient.graph);
  }
  ValueId waited(NodeIndex start) const {
    for (const NodeIndex reader : uses_.readers(graph_.nodes[start].results[0]))
      if (facts(graph_.nodes[reader].op).effect == Effect::wait) return graph_.nodes[reader].results[0];
    return kNoValue;
  }

  void of_collective(NodeIndex i, const Collective& collective) {
    const Node& node = graph_.nodes[i];
    const ValueId from = operand(node, 0), to = waited(i);
    if (to == kNoValue) return;
    const NodeIndex wait = uses_.maker(to);
    const TensorType type = graph_.value(to).type;
    if (collective.kind == CollectiveKind::all_reduce) {
      Patient left_out(graph_);
      left_out.replace(to, from, wait + 1);
      take("a sum over ranks is left out", i, left_out);
      for (const NodeIndex reader : uses_.readers(to)) {
        Patient early(graph_);
        for_each_operand(early.graph.nodes[reader], [&](ValueId& id) { id = id == to ? from : id; });
        for (const ValueId id : early.graph.nodes[reader].results)
          if (early.graph.value(id).views == to) early.graph.value(id).views = from;
        take("one reader takes the summand", reader, early);
      }
      Patient other(graph_);
      std::string& reduction = std::get<std::string>(other.graph.nodes[i].args[1]);
      reduction = reduction == "sum" ? "max" : "sum";
      take("a sum becomes a maximum, or the other way", i, other);
      if (collective.reduction == "sum") {
        Patient twice(graph_);
        const ValueId again = twice.insert_sum(wait + 1, to, std::string(collective.group));
        twice.replace(to, again, wait + 3);
        take("a sum over ranks is taken twice", i, twice);
      }
    }
    if (collective.kind == CollectiveKind::reduce_scatter) {
      Patient left_out(graph_);
      const ValueId piece = left_out.insert(
          wait + 1, "aten.slice.Tensor",
          {Use{from}, std::int64_t{0}, std::int64_t{0}, type.sizes[0], std::int64_t{1}}, type, from);
      left_out.replace(to, piece, wait + 2);
      take("a reduce-scatter becomes a slice", i, left_out);
      Patient twice(graph_);
      const ValueId again = twice.insert_sum(wait + 1, to, std::string(collective.group));
      twice.replace(to, again, wait + 3);
      take("what was reduced is summed again", i, twice);
    }
    if (collective.kind == CollectiveKind::all_gather) {
      Patient copies(graph_);
      std::vector<ValueId> same(static_cast<std::size_t>(collective.ranks), from);
      const ValueId repeated =
          copies.insert(wait + 1, "aten.cat.default", {UseList{std::move(same)}, std::int64_t{0}}, type);
      copies.replace(to, repeated, wait + 2);
      take("a gather becomes copies of the own part", i, copies);
    }
    with_other_group(i, collective);
  }

  std::int64_t ranks_of(const MeshGroup& group) const {
    std::int64_t ranks = 1;
    for (const std::int32_t axis : group.axes)
      ranks *= graph_.mesh.axes[static_cast<std::size_t>(axis)].ranks;
    return ranks;
  }
  void with_other_group(NodeIndex i, const Collective& collective) {
    const auto& groups = graph_.mesh.groups;
    const auto own = std::find_if(groups.begin(), groups.end(),
                                  [&](const MeshGroup& group) { return group.name == collective.group; });
    if (own == groups.end()) return;
    for (const MeshGroup& group : groups) {
      if (group.axes == own->axes || group.name.ends_with("_gather")) continue;
      if (collective.kind != CollectiveKind::all_reduce && ranks_of(group) != ranks_of(*own)) continue;
      Patient other(graph_);
      for (Argument& arg : other.graph.nodes[i].args)
        if (auto* text = std::get_if<std::string>(&arg); text != nullptr && *text == collective.group)
          *text = group.name;
      take("a collective names another group", i, other);
    }
  }

  // Of what ranks have counted repeatedly: a number of ranks.
  void without_division(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    const ValueId from = operand(node, 0);
    const auto* ranks = std::get_if<std::int64_t>(&node.args[1]);
    if (node.phase != Phase::update || ranks == nullptr || *ranks < 2 || from == kNoValue) return;
    Patient left_out(graph_);
    left_out.replace(node.results[0], from, i + 1);
    take("a division by ranks is left out", i, left_out);
    Patient twice(graph_);
    const Node copy = node;
    const ValueId again = twice.insert(i + 1, copy.op, copy.args, graph_.value(copy.results[0]).type);
    for_each_operand(twice.graph.nodes[i + 1], [&](ValueId& id) { id = copy.results[0]; });
    twice.replace(copy.results[0], again, i + 2);
    take("a division by ranks is made twice", i, twice);
  }

  void without_mask(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    if (graph_.value(operand(node, 0)).type.sizes != graph_.value(node.results[0]).type.sizes) return;
    Patient left_out(graph_);
    left_out.replace(node.results[0], operand(node, 0), i + 1);
    take("a mask is left out", i, left_out);
  }

  void with_ids_of_all(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    Patient whole(graph_);
    whole.replace(node.results[0], operand(node, 0), i + 1);
    take("ids of all stand for those of a part", i, whole);
  }

  void without_a_square(NodeIndex i) {
    const auto& list = std::get<UseList>(graph_.nodes[i].args[0]).values;
    for (std::size_t k = 0; k + 1 < list.size(); ++k) {
      Patient other(graph_);
      std::get<UseList>(other.graph.nodes[i].args[0]).values[k] = list[k + 1];
      take("the norm counts one gradient twice and leaves one out", i, other);
    }
  }

  void with_other_gradients(NodeIndex i) {
    const auto& list = std::get<UseList>(graph_.nodes[i].args[3]).values;
    for (std::size_t k = 0; k + 1 < list.size(); ++k) {
      if (graph_.value(list[k]).type != graph_.value(list[k + 1]).type) continue;
      Patient other(graph_);
      auto& gradients = std::get<UseList>(other.graph.nodes[i].args[3]).values;
      std::swap(gradients[k], gradients[k + 1]);
      take("two parameters take each other's gradient", i, other);
    }
  }

  void with_scaled_gradient(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    if (node.phase != Phase::backward) return;
    Patient scaled(graph_);
    const ValueId made = node.results[0];
    const ValueId again =
        scaled.insert(i + 1, "aten.mul.Scalar", {Use{made}, 2.0},
                      contiguous(graph_.value(made).type.dtype, graph_.value(made).type.sizes));
    scaled.replace(made, again, i + 2);
    take("a gradient is doubled", i, scaled);
  }

  const Graph& graph_;
  const DefUse uses_;
  const TakeMutant& take_;
};

}  // namespace

void for_each_mutant(const Graph& graph, const TakeMutant& take) { Mutations(graph, take).all(); }

}  // namespace rondo::ir

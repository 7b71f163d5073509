// Copies the graph for each mistake, makes the mistake in the copy (patient.h), and passes the copy
// on with its kind and place.
#include "tests/compiler/verify/mutants.h"

#include <algorithm>

#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "tests/compiler/verify/patient.h"

namespace rondo::ir {
namespace {

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

  void of_collective(NodeIndex i, const Collective& collective) {
    const NodeIndex wait = wait_for(graph_, i);
    if (wait == kNoNode) return;
    const std::string group(collective.group);
    const ValueId from = operand(graph_.nodes[i], 0), to = graph_.nodes[wait].results[0];
    if (const char* kind = left_out(collective.kind)) {
      Patient without(graph_);
      without.leave_out(i);
      take(kind, i, without);
    }
    if (collective.kind == CollectiveKind::all_reduce) {
      for (const NodeIndex reader : uses_.readers(to)) {
        Patient early(graph_);
        for_each_operand(early.graph.nodes[reader], [&](ValueId& id) { id = id == to ? from : id; });
        for (const ValueId id : early.graph.nodes[reader].results)
          if (early.graph.value(id).views == to) early.graph.value(id).views = from;
        take("one reader takes the partial operand", reader, early);
      }
      Patient other(graph_);
      other.name_reduction(i, collective.reduction == "sum" ? "max" : "sum");
      take("a sum becomes a maximum, or the other way", i, other);
    }
    if (collective.reduction == "sum") {
      Patient twice(graph_);
      twice.sum_again(i, group);
      take(collective.kind == CollectiveKind::all_reduce ? "a sum over ranks is taken twice"
                                                         : "what was reduced is summed again",
           i, twice);
    }
    with_other_group(i, collective);
  }
  static const char* left_out(CollectiveKind kind) {
    if (kind == CollectiveKind::all_reduce) return "a sum over ranks is left out";
    if (kind == CollectiveKind::reduce_scatter) return "a reduce-scatter becomes a slice";
    return kind == CollectiveKind::all_gather ? "a gather becomes copies of the own part" : nullptr;
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
      other.name_group(i, group.name);
      take("a collective names another group", i, other);
    }
  }

  // Leaves out or repeats a division by a number of ranks.
  void without_division(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    const ValueId from = operand(node, 0);
    const auto* ranks = std::get_if<std::int64_t>(&node.args[1]);
    if (node.phase != Phase::update || ranks == nullptr || *ranks < 2 || from == kNoValue) return;
    Patient left_out(graph_);
    left_out.skip(i);
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
    left_out.skip(i);
    take("a mask is left out", i, left_out);
  }

  void with_ids_of_all(NodeIndex i) {
    Patient whole(graph_);
    whole.skip(i);
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
    if (graph_.nodes[i].phase != Phase::backward) return;
    Patient scaled(graph_);
    scaled.scale(i, 2.0);
    take("a gradient is doubled", i, scaled);
  }

  const Graph& graph_;
  const DefUse uses_;
  const TakeMutant& take_;
};

}  // namespace

void for_each_mutant(const Graph& graph, const TakeMutant& take) { Mutations(graph, take).all(); }

}  // namespace rondo::ir

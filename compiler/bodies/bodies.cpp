// Each node belongs to one part, by its phase and by what depends on it. A body takes the nodes of
// its parts. Bodies are built from the last to the first, since each determines what earlier bodies
// must save. Values keep their ids, so nothing is renamed.
#include "compiler/bodies/bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "compiler/analysis/memory_policy.h"
#include "compiler/analysis/min_cut.h"
#include "compiler/analysis/parameters.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "compiler/verify/infer_sharding.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

enum class Part : std::uint8_t { unshard, forward, input, weight };

bool takes(Body body, Part part) {
  switch (body) {
    case Body::unshard:
      return part == Part::unshard;
    case Body::unshard_forward:
      return part == Part::unshard || part == Part::forward;
    case Body::forward:
      return part == Part::forward;
    case Body::backward:
      return part == Part::input || part == Part::weight;
    case Body::backward_input:
      return part == Part::input;
    case Body::backward_weight:
      return part == Part::weight;
    case Body::last_backward:
      break;
  }
  return false;
}

class Cutter {
 public:
  Cutter(const Graph& joint, const CutOptions& options)
      : joint_(joint),
        options_(options),
        def_use_(joint),
        roots_(storage_roots(joint)),
        shardings_(value_shardings(joint)),
        parameters_(parameters_of_nodes(joint)),
        parts_(joint.nodes.size(), Part::forward),
        recomputed_(joint.nodes.size(), false),
        inputs_(joint.values.size(), -1) {
    for (std::size_t i = 0; i < joint.inputs.size(); ++i)
      inputs_[joint.inputs[i].value] = static_cast<std::int32_t>(i);
  }

  std::vector<BodyGraph> run() {
    divide();
    if (options_.divided_backward && options_.recompute_pending) choose_recomputed();
    std::vector<BodyGraph> bodies;
    for (const Body body : {Body::backward_weight, Body::backward_input, Body::backward, Body::forward,
                            Body::unshard_forward, Body::unshard})
      if (is_requested(body) && has_nodes(body)) bodies.push_back({body, build(body)});
    std::reverse(bodies.begin(), bodies.end());
    return bodies;
  }

 private:
  // --- parts ---

  void divide() {
    const IdMap<bool> of_parameters = values_of_parameters(joint_, [&](std::size_t i) {
      return joint_.nodes[i].phase == Phase::forward && may_gather(joint_.nodes[i]);
    });
    IdMap<bool> made_backward(joint_.values.size(), false);
    for (NodeIndex i = 0; i < joint_.node_count(); ++i) {
      const Node& node = joint_.nodes[i];
      bool backward = node.phase == Phase::backward;
      if (node.phase == Phase::update)
        for_each_operand(node, [&](ValueId id) { backward = backward || made_backward[id]; });
      const bool unsharded = options_.unshard && node.phase == Phase::forward && !node.results.empty() &&
                             std::all_of(node.results.begin(), node.results.end(),
                                         [&](ValueId id) { return of_parameters[id]; });
      parts_[i] = backward ? Part::weight : unsharded ? Part::unshard : Part::forward;
      for (const ValueId id : node.results) made_backward[id] = backward;
    }
    for (std::size_t k = 0; k < joint_.outputs.size(); ++k)
      if (joint_.outputs[k].name == options_.input_gradient)
        needs_input_part(operand(joint_.return_node(), k));
  }

  // Moves the backward nodes that a value depends on to the input part.
  void needs_input_part(ValueId value) {
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const NodeIndex maker = def_use_.maker(open.back());
      open.pop_back();
      if (maker == kNoNode || parts_[maker] != Part::weight) continue;
      parts_[maker] = Part::input;
      for_each_operand(joint_.nodes[maker], [&](ValueId id) { open.push_back(id); });
    }
  }

  // Chooses the nodes of the input part that the weight part recomputes. Their operands are then
  // saved or recomputed in the same way.
  void choose_recomputed() {
    MinCut cut(joint_.values.size());
    for (NodeIndex i = 0; i + 1 < joint_.node_count(); ++i) {
      const Node& node = joint_.nodes[i];
      if (only_views(joint_, node)) continue;
      if (parts_[i] == Part::weight)
        for_each_operand(node, [&](ValueId id) {
          if (const ValueId read = behind_views(id); is_of_input_part(read)) cut.sink(index(read));
        });
      if (parts_[i] != Part::input) continue;
      const bool is_saved = is_expensive(node.op) || facts(node.op).effect != Effect::none;
      for (const ValueId result : node.results) {
        cut.set_capacity(index(result), storage_bytes(joint_.value(result).type));
        if (is_saved) cut.source(index(result));
        for_each_operand(node, [&](ValueId id) {
          const ValueId read = behind_views(id);
          if (!is_saved && is_of_input_part(read)) cut.connect(index(read), index(result));
        });
      }
    }
    const std::vector<bool> behind = cut.behind_cut();
    for (ValueId id = 0; id < joint_.value_count(); ++id)
      if (behind[index(id)]) recomputed_[def_use_.maker(id)] = true;
  }
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  bool is_of_input_part(ValueId id) const {
    const NodeIndex maker = def_use_.maker(id);
    return maker != kNoNode && parts_[maker] == Part::input;
  }
  // Returns the value to save: the base of a view, or the value itself.
  ValueId behind_views(ValueId id) const {
    for (NodeIndex maker = def_use_.maker(id); maker != kNoNode && only_views(joint_, joint_.nodes[maker]);
         maker = def_use_.maker(id))
      id = joint_.value(id).views;
    return id;
  }

  bool is_requested(Body body) const {
    switch (body) {
      case Body::unshard:
      case Body::forward:
        return true;
      case Body::unshard_forward:
        return options_.unshard_forward && has_nodes(Body::unshard);
      case Body::backward:
        return options_.whole_backward;
      default:
        return options_.divided_backward;
    }
  }
  bool has_nodes(Body body) const {
    for (NodeIndex i = 0; i + 1 < joint_.node_count(); ++i)
      if (takes(body, parts_[i])) return true;
    return false;
  }

  // --- one body ---

  struct Building {
    Body body;
    Graph graph;
    IdMap<bool> present;              // values of the joint graph in this body
    std::vector<bool> inputs;         // inputs of the joint graph in this body
    std::vector<Input> saved = {};    // appended to those inputs
    std::vector<Argument> ends = {};  // arguments of the return node
    std::set<ValueId> returned = {};  // storage roots of the returned values
  };

  Graph build(Body body) {
    Building b{body, {}, IdMap<bool>(joint_.values.size(), false), std::vector<bool>(joint_.inputs.size())};
    b.graph.name = joint_.name + "." + std::string(name_of(body));
    b.graph.blocks = joint_.blocks;
    b.graph.mesh = joint_.mesh;
    b.graph.values = joint_.values;
    for (NodeIndex i = 0; i + 1 < joint_.node_count(); ++i) {
      if (!takes(body, parts_[i])) continue;
      append(b, joint_.nodes[i]);
      // A gradient's parameter must be an input, since its name identifies it, though no node may
      // read it.
      if (parameters_[i] >= 0) b.inputs[static_cast<std::size_t>(parameters_[i])] = true;
    }
    return_outputs(b);
    const std::size_t of_joint = b.graph.outputs.size();
    if (body != Body::backward) return_saved(b);
    Node end = joint_.return_node();
    end.args = std::move(b.ends);
    b.graph.nodes.push_back(std::move(end));
    number_inputs(b, of_joint);
    return std::move(b.graph);
  }

  void append(Building& b, Node node) {
    for_each_operand(node, [&](ValueId id) { bring(b, id, node.phase); });
    for (const ValueId id : node.results) b.present[id] = true;
    b.graph.nodes.push_back(std::move(node));
  }

  // Makes a value of the joint graph available in the body: as an input, or recomputed.
  void bring(Building& b, ValueId id, Phase phase) {
    if (b.present[id]) return;
    b.present[id] = true;
    if (inputs_[id] >= 0) {
      b.inputs[static_cast<std::size_t>(inputs_[id])] = true;
      return;
    }
    const NodeIndex maker = def_use_.maker(id);
    Node node = joint_.nodes[maker];
    if (only_views(joint_, node) || (b.body == Body::backward_weight && recomputed_[maker])) {
      node.phase = phase;
      return append(b, std::move(node));
    }
    left_by_[static_cast<std::size_t>(parts_[maker])].insert(id);
    b.graph.value(id).views = kNoValue;  // the value is an input here
    add_saved(b, id, id);
  }

  // `value` is the id of `id` in the body.
  void add_saved(Building& b, ValueId id, ValueId value) {
    static constexpr std::array<std::string_view, 4> kPrefixes = {kUnsharded, kSaved, kPending, kPending};
    const auto part = static_cast<std::size_t>(parts_[def_use_.maker(id)]);
    Input input{fmt::format("{}{}", kPrefixes[part], id), InputKind::saved, value};
    if (const auto& sharding = shardings_[id]; sharding)
      input.sharding = *sharding;
    else
      b.graph.mesh = {};  // the sharding is unknown, so the body is not typed
    b.saved.push_back(std::move(input));
  }

  void return_outputs(Building& b) {
    for (std::size_t k = 0; k < joint_.outputs.size(); ++k) {
      const Output& output = joint_.outputs[k];
      const ValueId id = operand(joint_.return_node(), k);
      const NodeIndex maker = def_use_.maker(id);
      RONDO_ASSERT(maker != kNoNode, "a stage returns an input unchanged");
      if (!takes(b.body, parts_[maker])) continue;
      if (output.updates >= 0) b.inputs[static_cast<std::size_t>(output.updates)] = true;
      b.graph.outputs.push_back(output);
      b.ends.emplace_back(Use{id});
      b.returned.insert(roots_[id]);
    }
  }

  // Returns the values of this body that later bodies read.
  void return_saved(Building& b) {
    for (std::size_t part = 0; part < left_by_.size(); ++part) {
      if (!takes(b.body, static_cast<Part>(part))) continue;
      for (const ValueId id : left_by_[part]) {
        add_saved(b, id, b.graph.add_value({joint_.value(id).type}));
        b.graph.outputs.push_back({"new." + b.saved.back().name, static_cast<int>(b.saved.size()) - 1});
        b.ends.emplace_back(Use{b.returned.insert(roots_[id]).second ? id : copied(b, id)});
      }
    }
  }
  // Copies a value, since two outputs must not share a storage.
  static ValueId copied(Building& b, ValueId id) {
    const ValueId copy = b.graph.add_value({b.graph.value(id).type});
    const Node& last = b.graph.nodes.back();
    b.graph.nodes.push_back(
        {"aten.clone.default", {Use{id}, None{}}, {copy}, last.phase, last.module, "cut"});
    return copy;
  }

  // Replaces indices of updated inputs. Outputs refer to inputs of the joint graph so far, and from
  // `of_joint` on to saved inputs.
  void number_inputs(Building& b, std::size_t of_joint) const {
    std::vector<int> place(joint_.inputs.size(), -1);
    for (std::size_t i = 0; i < joint_.inputs.size(); ++i) {
      if (!b.inputs[i]) continue;
      place[i] = static_cast<int>(b.graph.inputs.size());
      b.graph.inputs.push_back(joint_.inputs[i]);
    }
    for (std::size_t k = 0; k < b.graph.outputs.size(); ++k) {
      int& updates = b.graph.outputs[k].updates;
      if (k >= of_joint)
        updates += static_cast<int>(b.graph.inputs.size());
      else if (updates >= 0)
        updates = place[static_cast<std::size_t>(updates)];
    }
    b.graph.inputs.insert(b.graph.inputs.end(), b.saved.begin(), b.saved.end());
  }

  const Graph& joint_;
  const CutOptions& options_;
  DefUse def_use_;
  IdMap<ValueId> roots_;
  IdMap<std::optional<Sharding>> shardings_;  // by value
  IdMap<std::int32_t> parameters_;            // by node
  IdMap<Part> parts_;                         // by node
  IdMap<bool> recomputed_;                    // by node: also in backward_weight
  IdMap<std::int32_t> inputs_;                // by value: the index of the input, or -1
  std::array<std::set<ValueId>, 4> left_by_;  // by Part: values that bodies of other parts read
};

}  // namespace

std::string_view name_of(Body body) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "unshard",        "unshard_forward", "forward",      "backward",
      "backward_input", "backward_weight", "last_backward"};
  return kNames[static_cast<std::size_t>(body)];
}

std::vector<BodyGraph> cut_into_bodies(const Graph& joint, const CutOptions& options) {
  return Cutter(joint, options).run();
}

}  // namespace rondo::ir

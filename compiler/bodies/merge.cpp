// Values of the backward get ids after those of the forward, except for common inputs.
#include "compiler/bodies/merge.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kForward = "forward.", kBackward = "backward.", kNew = "new.";

bool is_of_microbatch(const Input& input) {
  return input.kind == InputKind::batch || input.kind == InputKind::saved;
}

// Renames the inputs and outputs of a microbatch apart from those of the other body.
void name_apart(Graph& body, bool of_forward) {
  for (Input& input : body.inputs)
    if (is_of_microbatch(input)) input.name = name_in_pair(of_forward, input.name);
  for (Output& output : body.outputs)
    if (output.updates >= 0) output.name = std::string(kNew) + body.inputs[output.updates].name;
}

std::vector<bool> updated_inputs(const Graph& body) {
  std::vector<bool> updated(body.inputs.size());
  for (const Output& output : body.outputs)
    if (output.updates >= 0) updated[static_cast<std::size_t>(output.updates)] = true;
  return updated;
}

class Merger {
 public:
  // `chained`: the other one may read what the first writes.
  Merger(Graph first, Graph other, bool chained)
      : merged_(std::move(first)), other_(std::move(other)), chained_(chained) {}

  Graph run() {
    if (merged_.mesh != other_.mesh) merged_.mesh = {};  // one of them is not typed
    for (const std::string& block : other_.blocks)
      if (std::find(merged_.blocks.begin(), merged_.blocks.end(), block) == merged_.blocks.end())
        merged_.blocks.push_back(block);
    add_inputs();
    add_values();
    Node end = std::move(merged_.nodes.back());
    merged_.nodes.pop_back();
    for (Node& node : other_.nodes) {
      for_each_operand(node, [&](ValueId& id) { id = ids_[id]; });
      for (ValueId& id : node.results) id = ids_[id];
    }
    std::move(other_.nodes.begin(), other_.nodes.end() - 1, std::back_inserter(merged_.nodes));
    std::stable_sort(merged_.nodes.begin(), merged_.nodes.end(),
                     [](const Node& a, const Node& b) { return a.phase < b.phase; });
    const Node& other_end = other_.return_node();
    end.args.insert(end.args.end(), other_end.args.begin(), other_end.args.end());
    merged_.nodes.push_back(std::move(end));
    for (Output& output : other_.outputs) {
      if (output.updates >= 0) output.updates = places_[static_cast<std::size_t>(output.updates)];
      merged_.outputs.push_back(std::move(output));
    }
    return std::move(merged_);
  }

 private:
  void add_inputs() {
    const std::vector<bool> updated = updated_inputs(merged_), updated_too = updated_inputs(other_);
    std::map<std::string, int> indices;
    for (std::size_t i = 0; i < merged_.inputs.size(); ++i)
      indices[merged_.inputs[i].name] = static_cast<int>(i);
    inputs_of_first_ = merged_.inputs.size();
    ids_.assign(other_.values.size(), kNoValue);
    for (std::size_t i = 0; i < other_.inputs.size(); ++i) {
      const Input& input = other_.inputs[i];
      const auto [entry, is_new] = indices.emplace(input.name, static_cast<int>(merged_.inputs.size()));
      places_.push_back(entry->second);
      if (is_new) {
        merged_.inputs.push_back(input);  // add_values sets its value
        continue;
      }
      const bool writes = updated[static_cast<std::size_t>(entry->second)];
      RONDO_ASSERT(std::cmp_less(entry->second, inputs_of_first_) && !(writes && updated_too[i]) &&
                       (chained_ || (!writes && !updated_too[i])),
                   "a body of " + merged_.name + " depends on the other one through " + input.name);
      ids_[input.value] = writes ? written_to(entry->second) : merged_.inputs[entry->second].value;
    }
  }

  // Returns the value that the first body writes to an input.
  ValueId written_to(int input) const {
    const auto output = std::find_if(merged_.outputs.begin(), merged_.outputs.end(),
                                     [&](const Output& o) { return o.updates == input; });
    return operand(merged_.return_node(), static_cast<std::size_t>(output - merged_.outputs.begin()));
  }

  void add_values() {
    const ValueId first = merged_.value_count();
    for (ValueId id = 0; id < other_.value_count(); ++id)
      if (ids_[id] == kNoValue) ids_[id] = merged_.add_value(other_.value(id));
    for (ValueId id = first; id < merged_.value_count(); ++id) {
      Value& value = merged_.value(id);
      if (value.views != kNoValue) value.views = ids_[value.views];
      if (value.writes != kNoValue) value.writes = ids_[value.writes];
    }
    for (std::size_t i = 0; i < other_.inputs.size(); ++i)
      if (Input& input = merged_.inputs[places_[i]]; std::cmp_greater_equal(places_[i], inputs_of_first_))
        input.value = ids_[other_.inputs[i].value];
  }

  Graph merged_, other_;
  bool chained_;
  std::size_t inputs_of_first_ = 0;
  std::vector<int> places_;  // of the other body's inputs in the merged graph
  IdMap<ValueId> ids_;       // of the other body's values in the merged graph
};

}  // namespace

Graph merge_bodies(const Graph& forward, const Graph& backward) {
  Graph first = forward, other = backward;
  name_apart(first, true);
  name_apart(other, false);
  first.name += "_with_" + other.name;
  return Merger(std::move(first), std::move(other), /*chained=*/false).run();
}

Graph chain_bodies(const Graph& first, const Graph& second) {
  const std::size_t own = first.values.size();
  Graph chained = Merger(first, second, /*chained=*/true).run();
  const DefUse def_use(chained);
  IdMap<Place> places = present_places(chained);
  for (NodeIndex i = 0; i < chained.node_count(); ++i) {
    const Node& node = chained.nodes[i];
    const bool of_second = !node.results.empty() && static_cast<std::size_t>(node.results[0]) >= own;
    if (!of_second || node.phase != Phase::backward) continue;
    Place place{0, 0};
    for_each_operand(node, [&](ValueId id) {
      if (const NodeIndex maker = def_use.maker(id); maker != kNoNode)
        place = std::max(place, Place{places[maker].index, 1});
    });
    places[i] = place;
  }
  reorder(chained, places);
  return chained;
}

std::string name_in_pair(bool of_forward, std::string_view name) {
  return std::string(of_forward ? kForward : kBackward) += name;
}

NameInPair read_name_in_pair(std::string_view name) {
  const bool of_forward = name.starts_with(kForward);
  RONDO_ASSERT(of_forward || name.starts_with(kBackward), "an input of a pair has the prefix of a body");
  return {of_forward, std::string(name.substr((of_forward ? kForward : kBackward).size()))};
}

}  // namespace rondo::ir

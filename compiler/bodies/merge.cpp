// Values of the backward get numbers behind those of the forward, but for inputs that both have.
#include "compiler/bodies/merge.h"

#include <algorithm>
#include <map>

#include "support/error.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kForward = "forward.", kBackward = "backward.", kNew = "new.";

bool is_of_microbatch(const Input& input) {
  return input.kind == InputKind::batch || input.kind == InputKind::saved;
}

// Renames what would have the name of another body's.
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
  Merger(const Graph& forward, const Graph& backward) : made_(forward), other_(backward) {
    name_apart(made_, true);
    name_apart(other_, false);
  }

  Graph run() {
    made_.name += "_with_" + other_.name;
    if (made_.mesh != other_.mesh) made_.mesh = {};  // of one that is not typed
    for (const std::string& block : other_.blocks)
      if (std::find(made_.blocks.begin(), made_.blocks.end(), block) == made_.blocks.end())
        made_.blocks.push_back(block);
    add_inputs();
    add_values();
    Node end = std::move(made_.nodes.back());
    made_.nodes.pop_back();
    for (Node& node : other_.nodes) {
      for_each_operand(node, [&](ValueId& id) { id = ids_[id]; });
      for (ValueId& id : node.results) id = ids_[id];
    }
    std::move(other_.nodes.begin(), other_.nodes.end() - 1, std::back_inserter(made_.nodes));
    std::stable_sort(made_.nodes.begin(), made_.nodes.end(),
                     [](const Node& a, const Node& b) { return a.phase < b.phase; });
    const Node& other_end = other_.return_node();
    end.args.insert(end.args.end(), other_end.args.begin(), other_end.args.end());
    made_.nodes.push_back(std::move(end));
    for (Output& output : other_.outputs) {
      if (output.updates >= 0) output.updates = places_[static_cast<std::size_t>(output.updates)];
      made_.outputs.push_back(std::move(output));
    }
    return std::move(made_);
  }

 private:
  void add_inputs() {
    const std::vector<bool> updated = updated_inputs(made_), updated_too = updated_inputs(other_);
    std::map<std::string, int> known;
    for (std::size_t i = 0; i < made_.inputs.size(); ++i) known[made_.inputs[i].name] = static_cast<int>(i);
    const auto of_forward = static_cast<std::ptrdiff_t>(made_.inputs.size());
    ids_.assign(other_.values.size(), kNoValue);
    for (std::size_t i = 0; i < other_.inputs.size(); ++i) {
      const Input& input = other_.inputs[i];
      const auto [found, is_new] = known.emplace(input.name, static_cast<int>(made_.inputs.size()));
      places_.push_back(found->second);
      if (is_new) {
        made_.inputs.push_back(input);  // its value: see below
        continue;
      }
      RONDO_ASSERT(
          found->second < of_forward && !updated_too[i] && !updated[static_cast<std::size_t>(found->second)],
          "a body of " + made_.name + " depends on the other one by " + input.name);
      ids_[input.value] = made_.inputs[found->second].value;
    }
  }

  void add_values() {
    const ValueId first = made_.value_count();
    for (ValueId id = 0; id < other_.value_count(); ++id)
      if (ids_[id] == kNoValue) ids_[id] = made_.add_value(other_.value(id));
    for (ValueId id = first; id < made_.value_count(); ++id) {
      Value& value = made_.value(id);
      if (value.views != kNoValue) value.views = ids_[value.views];
      if (value.writes != kNoValue) value.writes = ids_[value.writes];
    }
    for (std::size_t i = 0; i < other_.inputs.size(); ++i)
      made_.inputs[places_[i]].value = ids_[other_.inputs[i].value];
  }

  Graph made_, other_;
  std::vector<int> places_;  // of the other's inputs among all
  IdMap<ValueId> ids_;       // of the other's values
};

}  // namespace

Graph merge_bodies(const Graph& forward, const Graph& backward) { return Merger(forward, backward).run(); }

std::string name_in_pair(bool of_forward, std::string_view name) {
  return std::string(of_forward ? kForward : kBackward) += name;
}

NameInPair read_name_in_pair(std::string_view name) {
  const bool of_forward = name.starts_with(kForward);
  RONDO_ASSERT(of_forward || name.starts_with(kBackward), "an input of a pair is named after a body");
  return {of_forward, std::string(name.substr((of_forward ? kForward : kBackward).size()))};
}

}  // namespace rondo::ir

// Values of the backward get ids after those of the forward, except for common inputs.
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
  Merger(const Graph& forward, const Graph& backward) : merged_(forward), other_(backward) {
    name_apart(merged_, true);
    name_apart(other_, false);
  }

  Graph run() {
    merged_.name += "_with_" + other_.name;
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
    const auto of_forward = static_cast<std::ptrdiff_t>(merged_.inputs.size());
    ids_.assign(other_.values.size(), kNoValue);
    for (std::size_t i = 0; i < other_.inputs.size(); ++i) {
      const Input& input = other_.inputs[i];
      const auto [entry, is_new] = indices.emplace(input.name, static_cast<int>(merged_.inputs.size()));
      places_.push_back(entry->second);
      if (is_new) {
        merged_.inputs.push_back(input);  // add_values sets its value
        continue;
      }
      RONDO_ASSERT(
          entry->second < of_forward && !updated_too[i] && !updated[static_cast<std::size_t>(entry->second)],
          "a body of " + merged_.name + " depends on the other one through " + input.name);
      ids_[input.value] = merged_.inputs[entry->second].value;
    }
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
      merged_.inputs[places_[i]].value = ids_[other_.inputs[i].value];
  }

  Graph merged_, other_;
  std::vector<int> places_;  // of the other body's inputs in the merged graph
  IdMap<ValueId> ids_;       // of the other body's values in the merged graph
};

}  // namespace

Graph merge_bodies(const Graph& forward, const Graph& backward) { return Merger(forward, backward).run(); }

std::string name_in_pair(bool of_forward, std::string_view name) {
  return std::string(of_forward ? kForward : kBackward) += name;
}

NameInPair read_name_in_pair(std::string_view name) {
  const bool of_forward = name.starts_with(kForward);
  RONDO_ASSERT(of_forward || name.starts_with(kBackward), "an input of a pair has the prefix of a body");
  return {of_forward, std::string(name.substr((of_forward ? kForward : kBackward).size()))};
}

}  // namespace rondo::ir

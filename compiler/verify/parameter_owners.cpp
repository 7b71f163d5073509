// Walks the nodes once. Few nodes read values with an owner; the others are skipped before their op
// is looked up.
#include "compiler/verify/parameter_owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "compiler/ir/verify_error.h"
#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"

namespace rondo::ir {
namespace {

// The owner of a value; none if `parameter` is -1.
struct Owner {
  enum class Of : std::uint8_t {
    parameter,  // the input, or a copy or a part of it
    state,      // the same for the state of a parameter, or for another input
    gradient,
    update,  // the new content of the input, or a sum of it and another value
  };
  std::int32_t parameter = -1;  // index of the parameter among the inputs, or of another input
  Of of = Of::parameter;
  bool operator==(const Owner&) const = default;
};
// `length` elements of the last dimension; in a gathered buffer, of each rank's row.
struct OwnedPart {
  std::int64_t length;
  Owner owner;
};
using OwnedParts = std::vector<OwnedPart>;

class Owners {
 public:
  explicit Owners(const Graph& graph)
      : graph_(graph), held_(graph.values.size()), is_read_(graph.values.size(), false) {
    for (const Node& node : graph.nodes) for_each_operand(node, [&](ValueId id) { is_read_[id] = true; });
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i].kind == InputKind::parameter)
        parameters_.emplace(graph.inputs[i].name, static_cast<std::int32_t>(i));
  }

  void walk() {
    for (const Input& input : graph_.inputs)
      if (const Owner owner = owner_by_name(input); owner.parameter >= 0) set(input.value, owner);
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.module != module_ || i == 0) enter(node.module);
      if (!is_concerned(node)) continue;
      const Op& op = functional_facts(node.op);
      if (node.op == kReturn) {
        outputs(i);
      } else if (op.kind == OpKind::optimizer) {
        optimizer(i);
      } else {
        propagate(i, op);
      }
    }
  }

 private:
  Owner owner_by_name(const Input& input) const {
    if (input.kind == InputKind::batch || input.kind == InputKind::saved) return {};
    if (const auto own = parameters_.find(input.name); own != parameters_.end())
      return {own->second, Owner::Of::parameter};
    const std::string_view name = input.name;
    const auto of = parameters_.find(name.substr(name.find('.') + 1));
    const auto own = static_cast<std::int32_t>(&input - graph_.inputs.data());
    return {of == parameters_.end() ? own : of->second, Owner::Of::state};
  }
  // Returns true if the owner is a parameter and not another input.
  bool is_parameters(const Owner& owner) const {
    return owner.parameter >= 0 && graph_.inputs[owner.parameter].kind == InputKind::parameter;
  }
  const std::string& name_of(const Owner& owner) const { return graph_.inputs[owner.parameter].name; }

  void enter(std::string_view module) {
    module_ = module;
    const auto parameter = parameters_.find(module);
    at_ = parameter == parameters_.end() ? -1 : parameter->second;
  }
  bool is_concerned(const Node& node) const {
    bool concerned = at_ >= 0 && node.phase == Phase::backward;
    for_each_operand(node, [&](ValueId id) { concerned = concerned || is_owned(id); });
    return concerned;
  }

  // The owner of a value, or the buffer with the owners of its parts.
  struct Held {
    Owner owner;
    std::int32_t buffer = -1;  // index into buffers_
  };
  bool is_owned(ValueId id) const { return held_[id].owner.parameter >= 0 || held_[id].buffer >= 0; }
  // Returns no owner for a buffer of several.
  Owner owner(ValueId id) const { return id == kNoValue ? Owner{} : held_[id].owner; }
  OwnedParts parts(ValueId id) const {
    if (id == kNoValue) return {};
    if (held_[id].buffer >= 0) return buffers_[static_cast<std::size_t>(held_[id].buffer)];
    return {{length(id), held_[id].owner}};
  }
  std::int64_t length(ValueId id) const {
    const std::vector<std::int64_t>& sizes = graph_.value(id).type.sizes;
    return sizes.empty() ? 1 : sizes.back();
  }
  void set(ValueId id, OwnedParts parts) {
    const bool one_owner = std::all_of(
        parts.begin(), parts.end(), [&](const OwnedPart& part) { return part.owner == parts.front().owner; });
    if (one_owner) return set(id, parts.front().owner);
    held_[id] = {{}, static_cast<std::int32_t>(buffers_.size())};
    buffers_.push_back(std::move(parts));
  }
  void set(ValueId id, const Owner& owner) { held_[id] = {owner, -1}; }

  void propagate(NodeIndex i, const Op& op) {
    const Node& node = graph_.nodes[i];
    if (node.results.empty()) return;
    if (op.kind == OpKind::list) {
      concatenate(node);
    } else if (op.kind == OpKind::split || op.kind == OpKind::piece) {
      split(node, op.kind);
    } else if (op.kind == OpKind::sum) {
      set(node.results[0], sum(owner(operand(node, 0)), owner(operand(node, 1))));
    } else if (op.keeps_parts || op.keeps_owner) {
      pass_on(node, op);
    }
    if (op.kind == OpKind::list) return;  // a module may concatenate several parameters
    for_each_operand(node, [&](ValueId id) {
      const Owner own = owner(id);
      if (own.parameter < 0 || own.of != Owner::Of::parameter) return;
      const std::int32_t expected = parameter_of_module(own, node, op);
      if (own.parameter != expected)
        throw VerifyError{i, fmt::format("reads {} in place of {}", name_of(own), name_of({expected}))};
    });
    if (at_ < 0 || node.phase != Phase::backward) return;
    for (const ValueId id : node.results)
      if (!is_owned(id)) set(id, Owner{at_, Owner::Of::gradient});
  }

  // Returns the parameter that a node of this module may read in place of `own`. In a module with
  // the name of a parameter, nodes that make it whole read that one. Elsewhere nodes read a
  // parameter of the module, or one whose last name no parameter of the module has.
  std::int32_t parameter_of_module(const Owner& own, const Node& node, const Op& op) const {
    if (at_ >= 0) {
      const bool whole = op.kind == OpKind::view || is_collective(node, CollectiveKind::all_gather);
      return whole ? at_ : own.parameter;
    }
    const std::string& name = name_of(own);
    if (name.starts_with(module_) && name[module_.size()] == '.') return own.parameter;
    const auto namesake =
        parameters_.find(std::string(module_).append(name, std::min(name.rfind('.'), name.size())));
    return namesake == parameters_.end() ? own.parameter : namesake->second;
  }

  void pass_on(const Node& node, const Op& op) {
    const ValueId from = operand(node, 0);
    if (from == kNoValue || !is_owned(from)) return;
    const bool scales = op.kind == OpKind::scaling || op.kind == OpKind::division;
    const auto changed = [&](Owner owner) {
      if (scales && owner.of == Owner::Of::state) owner.of = Owner::Of::update;
      return owner;
    };
    if (held_[from].buffer < 0) return set(node.results[0], changed(held_[from].owner));
    OwnedParts owned = parts(from);
    for (OwnedPart& part : owned) part.owner = changed(part.owner);
    set(node.results[0], std::move(owned));
  }

  // Returns the owner of a sum. A sum with an input is an update, of the parameter whose gradient
  // is added.
  Owner sum(const Owner& a, const Owner& b) const {
    const auto is = [](const Owner& owner, Owner::Of of) { return owner.parameter >= 0 && owner.of == of; };
    for (const auto& [input, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (!is(input, Owner::Of::state) && !is(input, Owner::Of::parameter)) continue;
      const bool of_gradient = is_parameters(input) && is(other, Owner::Of::gradient);
      return {of_gradient ? other.parameter : input.parameter, Owner::Of::update};
    }
    return a.parameter < 0 || is(b, Owner::Of::gradient) ? b : a;
  }

  // Concatenates the owners of flat tensors, or of rows of them.
  void concatenate(const Node& node) {
    const auto* list = argument<UseList>(node, 0);
    const std::size_t dims = graph_.value(node.results[0]).type.sizes.size();
    const auto* along = argument<std::int64_t>(node, 1);
    if (list == nullptr || along == nullptr || dims == 0 || dims > 2) return;
    if (dim_of(*along, dims) + 1 != static_cast<int>(dims)) return;
    OwnedParts owned;
    for (const ValueId id : list->values)
      for (const OwnedPart& part : parts(id)) owned.push_back(part);
    if (!owned.empty()) set(node.results[0], std::move(owned));
  }

  // Assigns its parts to each piece. Along a dimension other than the last, each piece has all
  // parts.
  void split(const Node& node, OpKind kind) {
    const ValueId source = operand(node, 0);
    if (source == kNoValue || !is_owned(source)) return;
    const OwnedParts from = parts(source);
    const Piece piece(node);
    const std::size_t dims = graph_.value(source).type.sizes.size();
    const int dim = dim_of(kind == OpKind::piece ? piece.dim : dim_of_split(node), dims);
    const bool keeps_all = from.size() == 1 || dim + 1 != static_cast<int>(dims);
    constexpr std::int64_t kMax = std::int64_t{1} << 60;  // elements of any tensor
    std::int64_t begin = kind == OpKind::piece ? std::clamp(piece.begin, std::int64_t{0}, kMax) : 0;
    for (const ValueId id : node.results) {
      if (keeps_all) {
        set(id, from);
        continue;
      }
      const bool keeps_dims = graph_.value(id).type.sizes.size() == dims;
      const std::int64_t end = begin + (keeps_dims ? length(id) : 1);
      OwnedParts owned;
      std::int64_t at = 0;
      for (const OwnedPart& part : from) {
        const std::int64_t low = std::max(begin, at), high = std::min(end, at + part.length);
        if (low < high) owned.push_back({high - low, part.owner});
        if ((at += part.length) >= end) break;
      }
      if (!owned.empty()) set(id, std::move(owned));
      begin = end;
    }
  }

  // Throws VerifyError unless a value of `own` may be in the place of `expected`. `other` owns the
  // value in the place of `own`.
  void check_place(NodeIndex i, std::string_view what, const Owner& own, const Owner& expected,
                   const Owner& other) const {
    if (own.parameter < 0 || own.parameter == expected.parameter) return;
    const bool of_gradient = own.of == Owner::Of::gradient || own.of == Owner::Of::update;
    if (of_gradient && other.parameter == own.parameter) return;  // both share it
    if (of_gradient && !is_updated(own)) return;                  // no other update takes it
    throw VerifyError{
        i, fmt::format("takes the {} of {} as the {} of {}", what, name_of(own), what, name_of(expected))};
  }

  // Returns true if an output updates the owner or its state.
  bool is_updated(const Owner& owner) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const Output& output) {
      return output.updates >= 0 && owner_by_name(graph_.inputs[output.updates]).parameter == owner.parameter;
    });
  }

  // Checks an optimizer (parameters, first moments, second moments, gradients, ...), whose results
  // are the first three.
  void optimizer(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    const std::vector<const UseList*> lists = lists_of(node);
    if (lists.empty()) return;
    const std::vector<ValueId>& updated = lists[0]->values;
    std::unordered_map<std::int32_t, std::size_t> place_of;
    for (std::size_t k = 0; k < updated.size(); ++k) place_of.emplace(owner(updated[k]).parameter, k);
    std::size_t next = 0;
    for (const UseList* list : lists) {
      for (std::size_t k = 0; k < list->values.size() && k < updated.size(); ++k) {
        const Owner own = owner(list->values[k]), expected = owner(updated[k]);
        const auto place = place_of.find(own.parameter);
        const bool has_place = place != place_of.end() && place->second < list->values.size();
        if (expected.parameter >= 0 && is_parameters(own) &&
            (own.of == Owner::Of::gradient || own.of == Owner::Of::state))
          check_place(i, own.of == Owner::Of::gradient ? "gradient" : "state", own, expected,
                      has_place ? owner(list->values[place->second]) : Owner{});
        if (next < node.results.size()) set(node.results[next++], Owner{own.parameter, Owner::Of::update});
      }
    }
  }

  // Returns true for a count or a flag that belongs to no parameter.
  bool is_number(const Input& input) const {
    return graph_.value(input.value).type.sizes.empty() && !is_parameters(owner_by_name(input));
  }
  // Checks the updates of inputs: an update belongs to its input or has no owner, like a cleared
  // sum.
  void outputs(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    const auto update_of = [&](const std::string& name) {
      for (std::size_t k = 0; k < graph_.outputs.size(); ++k)
        if (const int at = graph_.outputs[k].updates; at >= 0 && graph_.inputs[at].name == name)
          return owner(operand(node, k));
      return Owner{};
    };
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
      if (graph_.outputs[k].updates < 0) continue;
      const Input& input = graph_.inputs[graph_.outputs[k].updates];
      const Owner own = owner(operand(node, k)), expected = owner_by_name(input);
      if (own.parameter < 0 || expected.parameter < 0) continue;
      const bool is_its_own = own.parameter == expected.parameter;
      if (!is_its_own && is_number(input)) continue;  // a number may be computed from another
      Owner other;
      if (!is_its_own)
        other = update_of(input.name.substr(0, input.name.size() - name_of(expected).size()) + name_of(own));
      check_place(i, "update", own, expected, other);
      if (!is_read_[input.value]) continue;  // it holds a result, such as a reduced sum
      if (own.of == Owner::Of::gradient)
        throw VerifyError{i, fmt::format("replaces {} instead of adding to it", input.name)};
      if (own.of != Owner::Of::update) throw VerifyError{i, fmt::format("leaves {} unchanged", input.name)};
    }
  }

  const Graph& graph_;
  std::unordered_map<std::string_view, std::int32_t> parameters_;
  std::vector<OwnedParts> buffers_;
  IdMap<Held> held_;
  IdMap<bool> is_read_;  // by value
  std::string_view module_;
  std::int32_t at_ = -1;  // the parameter with the name of the module, or -1
};

}  // namespace

void parameters_keep_their_places(const Graph& graph) { Owners(graph).walk(); }

}  // namespace rondo::ir

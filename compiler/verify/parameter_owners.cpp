// One walk. Few nodes handle what has an owner: the others are passed by without a look at their op.
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

// Nobody, where `parameter` is -1.
struct Owner {
  enum class Of : std::uint8_t {
    parameter,  // it is that input, a copy or a part of it
    state,      // the same of what is kept for a parameter, or of another input
    gradient,
    update,  // what the input becomes, or a sum of it and something
  };
  std::int32_t parameter = -1;  // index among the inputs; of another input its own
  Of of = Of::parameter;
  bool operator==(const Owner&) const = default;
};
// Of the last dimension `length` elements; of a gathered buffer, of each rank's row.
struct OwnedPart {
  std::int64_t length;
  Owner owner;
};
using OwnedParts = std::vector<OwnedPart>;

class Owners {
 public:
  explicit Owners(const Graph& graph) : graph_(graph), held_(graph.values.size()) {
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
        handled(i, op);
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
  // And no other input's.
  bool is_parameters(const Owner& owner) const {
    return owner.parameter >= 0 && graph_.inputs[owner.parameter].kind == InputKind::parameter;
  }
  const std::string& name_of(const Owner& owner) const { return graph_.inputs[owner.parameter].name; }

  void enter(std::string_view module) {
    module_ = module;
    const auto found = parameters_.find(module);
    at_ = found == parameters_.end() ? -1 : found->second;
  }
  bool is_concerned(const Node& node) const {
    bool concerned = at_ >= 0 && node.phase == Phase::backward;
    for_each_operand(node, [&](ValueId id) { concerned = concerned || is_owned(id); });
    return concerned;
  }

  // What a value holds: something of one owner, or a buffer of several.
  struct Held {
    Owner owner;
    std::int32_t buffer = -1;  // index into buffers_
  };
  bool is_owned(ValueId id) const { return held_[id].owner.parameter >= 0 || held_[id].buffer >= 0; }
  // Nobody's, where it has several.
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
  void set(ValueId id, OwnedParts made) {
    const bool alike = std::all_of(made.begin(), made.end(),
                                   [&](const OwnedPart& part) { return part.owner == made.front().owner; });
    if (alike) return set(id, made.front().owner);
    held_[id] = {{}, static_cast<std::int32_t>(buffers_.size())};
    buffers_.push_back(std::move(made));
  }
  void set(ValueId id, const Owner& owner) { held_[id] = {owner, -1}; }

  void handled(NodeIndex i, const Op& op) {
    const Node& node = graph_.nodes[i];
    if (node.results.empty()) return;
    if (op.kind == OpKind::list) {
      concatenate(node);
    } else if (op.kind == OpKind::split || op.kind == OpKind::piece) {
      take_apart(node, op.kind);
    } else if (op.kind == OpKind::sum) {
      set(node.results[0], sum(owner(operand(node, 0)), owner(operand(node, 1))));
    } else if (op.keeps_parts || op.keeps_owner) {
      hand_on(node, op);
    }
    if (op.kind == OpKind::list) return;  // several may be put together in the module of one
    for_each_operand(node, [&](ValueId id) {
      const Owner own = owner(id);
      if (own.parameter < 0 || own.of != Owner::Of::parameter) return;
      const std::int32_t wanted = parameter_of_module(own, node, op);
      if (own.parameter != wanted)
        throw VerifyError{i, fmt::format("takes {} in the place of {}", name_of(own), name_of({wanted}))};
    });
    if (at_ < 0 || node.phase != Phase::backward) return;
    for (const ValueId id : node.results)
      if (!is_owned(id)) set(id, Owner{at_, Owner::Of::gradient});
  }

  // The parameter that a node of this module may take where it takes `own`: the one that the module is named
  // as, where parameters become whole there; else what lies in the module, or is called as nothing in it is.
  std::int32_t parameter_of_module(const Owner& own, const Node& node, const Op& op) const {
    if (at_ >= 0) {
      const bool whole = op.kind == OpKind::view || is_collective(node, CollectiveKind::all_gather);
      return whole ? at_ : own.parameter;
    }
    const std::string& name = name_of(own);
    if (name.starts_with(module_) && name[module_.size()] == '.') return own.parameter;
    const auto found =
        parameters_.find(std::string(module_).append(name, std::min(name.rfind('.'), name.size())));
    return found == parameters_.end() ? own.parameter : found->second;
  }

  void hand_on(const Node& node, const Op& op) {
    const ValueId from = operand(node, 0);
    if (from == kNoValue || !is_owned(from)) return;
    const bool scales = op.kind == OpKind::scaling || op.kind == OpKind::division;
    const auto changed = [&](Owner owner) {
      if (scales && owner.of == Owner::Of::state) owner.of = Owner::Of::update;
      return owner;
    };
    if (held_[from].buffer < 0) return set(node.results[0], changed(held_[from].owner));
    OwnedParts made = parts(from);
    for (OwnedPart& part : made) part.owner = changed(part.owner);
    set(node.results[0], std::move(made));
  }

  // What is added to an input is its update: for the parameter whose gradient that is.
  Owner sum(const Owner& a, const Owner& b) const {
    const auto is = [](const Owner& owner, Owner::Of of) { return owner.parameter >= 0 && owner.of == of; };
    for (const auto& [input, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (!is(input, Owner::Of::state) && !is(input, Owner::Of::parameter)) continue;
      const bool of_gradient = is_parameters(input) && is(other, Owner::Of::gradient);
      return {of_gradient ? other.parameter : input.parameter, Owner::Of::update};
    }
    return a.parameter < 0 || is(b, Owner::Of::gradient) ? b : a;
  }

  // Of flat tensors, or of rows of them, one behind the other.
  void concatenate(const Node& node) {
    const auto* list = argument<UseList>(node, 0);
    const std::size_t dims = graph_.value(node.results[0]).type.sizes.size();
    const auto* along = argument<std::int64_t>(node, 1);
    if (list == nullptr || along == nullptr || dims == 0 || dims > 2) return;
    if (dim_of(*along, dims) + 1 != static_cast<int>(dims)) return;
    OwnedParts made;
    for (const ValueId id : list->values)
      for (const OwnedPart& part : parts(id)) made.push_back(part);
    if (!made.empty()) set(node.results[0], std::move(made));
  }

  // Along another dimension than the last, each piece has all parts.
  void take_apart(const Node& node, OpKind kind) {
    const ValueId source = operand(node, 0);
    if (source == kNoValue || !is_owned(source)) return;
    const OwnedParts from = parts(source);
    const Piece piece(node);
    const std::size_t dims = graph_.value(source).type.sizes.size();
    const int dim = dim_of(kind == OpKind::piece ? piece.dim : dim_of_split(node), dims);
    const bool keeps_all = from.size() == 1 || dim + 1 != static_cast<int>(dims);
    constexpr std::int64_t kMost = std::int64_t{1} << 60;  // elements of any tensor
    std::int64_t begin = kind == OpKind::piece ? std::clamp(piece.begin, std::int64_t{0}, kMost) : 0;
    for (const ValueId id : node.results) {
      if (keeps_all) {
        set(id, from);
        continue;
      }
      const bool keeps_dims = graph_.value(id).type.sizes.size() == dims;
      const std::int64_t end = begin + (keeps_dims ? length(id) : 1);
      OwnedParts taken;
      std::int64_t at = 0;
      for (const OwnedPart& part : from) {
        const std::int64_t low = std::max(begin, at), high = std::min(end, at + part.length);
        if (low < high) taken.push_back({high - low, part.owner});
        if ((at += part.length) >= end) break;
      }
      if (!taken.empty()) set(id, std::move(taken));
      begin = end;
    }
  }

  // `own`: whose the value is that stands in the place of what `wanted` owns; `other`: whose that is that
  // stands in the place of what `own` owns.
  void check_place(NodeIndex i, std::string_view what, const Owner& own, const Owner& wanted,
                   const Owner& other) const {
    if (own.parameter < 0 || own.parameter == wanted.parameter) return;
    const bool of_gradient = own.of == Owner::Of::gradient || own.of == Owner::Of::update;
    if (of_gradient && other.parameter == own.parameter) return;  // they share it
    if (of_gradient && !is_updated(own)) return;                  // nobody else takes it
    throw VerifyError{i,
                      fmt::format("takes the {} of {} for that of {}", what, name_of(own), name_of(wanted))};
  }

  // It, or what is kept for it.
  bool is_updated(const Owner& owner) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const Output& output) {
      return output.updates >= 0 && owner_by_name(graph_.inputs[output.updates]).parameter == owner.parameter;
    });
  }

  // (parameters, first moments, second moments, gradients, ...): results are the first three.
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
        const Owner own = owner(list->values[k]), wanted = owner(updated[k]);
        const auto place = place_of.find(own.parameter);
        const bool has_place = place != place_of.end() && place->second < list->values.size();
        if (wanted.parameter >= 0 && is_parameters(own) &&
            (own.of == Owner::Of::gradient || own.of == Owner::Of::state))
          check_place(i, own.of == Owner::Of::gradient ? "gradient" : "state", own, wanted,
                      has_place ? owner(list->values[place->second]) : Owner{});
        if (next < node.results.size()) set(node.results[next++], Owner{own.parameter, Owner::Of::update});
      }
    }
  }

  // A count or a flag that is kept for no parameter.
  bool is_number(const Input& input) const {
    return graph_.value(input.value).type.sizes.empty() && !is_parameters(owner_by_name(input));
  }
  // What an input becomes: something new of its own, or what nobody owns, as where a sum is cleared.
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
      const Owner own = owner(operand(node, k)), wanted = owner_by_name(input);
      if (own.parameter < 0 || wanted.parameter < 0) continue;
      const bool is_its_own = own.parameter == wanted.parameter;
      if (!is_its_own && is_number(input)) continue;  // one number may follow from another
      Owner other;
      if (!is_its_own)
        other = update_of(input.name.substr(0, input.name.size() - name_of(wanted).size()) + name_of(own));
      check_place(i, "update", own, wanted, other);
      if (own.of == Owner::Of::gradient)
        throw VerifyError{i, fmt::format("replaces {}, and does not add to it", input.name)};
      if (own.of != Owner::Of::update) throw VerifyError{i, fmt::format("leaves {} as it was", input.name)};
    }
  }

  const Graph& graph_;
  std::unordered_map<std::string_view, std::int32_t> parameters_;
  std::vector<OwnedParts> buffers_;
  IdMap<Held> held_;
  std::string_view module_;
  std::int32_t at_ = -1;  // the parameter that the module is named as
};

}  // namespace

void parameters_keep_their_places(const Graph& graph) { Owners(graph).walk(); }

}  // namespace rondo::ir

// Walks the nodes once and infers all axes of a node together. A node that reads a buffer of unlike
// parts is inferred once for each part.
#include "compiler/verify/infer_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/ir/storages.h"
#include "compiler/ir/verify_error.h"
#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/text/text.h"
#include "compiler/verify/value_shardings.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;
using Sizes = std::vector<std::int64_t>;

ShardingType as_piece(ShardingType type) {
  for (Placement& p : type.on)
    if (p.kind == Kind::inner) p = {Kind::sharded, 0, p.repeated};
  type.unflattened = -1;
  return type;
}

class Inference {
 public:
  explicit Inference(const Graph& graph) : graph_(graph), types_(graph), axes_(types_.axes()) {
    for (const MeshGroup& group : graph.mesh.groups) groups_.emplace(group.name, &group);
  }

  // Throws VerifyError.
  void walk() {
    for (const Input& input : graph_.inputs) {
      const ShardingType type = types_.type_of(input.sharding);
      check_dims(input.value, type);
      types_.set(input.value, type);
    }
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      try {
        graph_.nodes[i].op == kReturn ? outputs() : node(graph_.nodes[i]);
      } catch (const Refused& refused) {
        throw VerifyError{i, refused.why};
      }
    }
  }

  const ValueShardings& types() const { return types_; }

 private:
  void check_dims(ValueId id, const ShardingType& type) const {
    const std::size_t dims = graph_.value(id).type.sizes.size();
    for (const Placement& p : type.on)
      if (p.kind == Kind::sharded && static_cast<std::size_t>(p.dim) >= dims)
        throw VerifyError{kNoNode,
                          fmt::format("%{} has {} dimensions, but is sharded along {}", id, dims, p.dim)};
  }

  // --- nodes ---

  void node(const Node& node) {
    const Op& op = functional_facts(node.op);
    if (op.kind == OpKind::optimizer) return optimizer(node);
    if (node.results.empty()) return;
    if (op.kind == OpKind::squares) return sums_of_squares(node);
    if (op.kind == OpKind::list && unlike_parts(node)) return;
    const MeshGroup* const group =
        is_collective(facts(node.op)) || op.group >= 0 ? group_of(node, op) : nullptr;
    ValueId buffer = kNoValue;
    bool by_parts = op.kind == OpKind::split || op.kind == OpKind::piece || op.keeps_parts;
    for_each_operand(node, [&](ValueId id) {
      const BufferParts* const parts = types_.parts(id);
      if (parts == nullptr) return;
      buffer = id;
      const auto common = common_type(*parts);
      if (common) types_.set(id, *common);
      by_parts = by_parts || !common;
    });
    if (buffer == kNoValue || !by_parts) {
      for (std::size_t i = 0; i < node.results.size(); ++i)
        types_.set(node.results[i], result(node, op, group, i));
    } else if (op.kind == OpKind::split) {
      std::int64_t begin = 0;
      for (const ValueId id : node.results) begin = take(buffer, begin, id);
    } else if (op.kind == OpKind::piece) {
      take(buffer, Piece(node).begin, node.results[0]);
    } else if (op.keeps_parts) {
      each_part(node, op, group, buffer);
    } else {
      throw Refused{"it reads a buffer whose parts are sharded differently"};
    }
  }

  // Sets the type of `result`, the elements of `buffer` from `begin`. A scalar is one element.
  // Returns the end of the elements.
  std::int64_t take(ValueId buffer, std::int64_t begin, ValueId result) {
    const Sizes& sizes = graph_.value(result).type.sizes;
    constexpr std::int64_t kMax = std::int64_t{1} << 60;  // elements of any tensor
    if (begin < 0 || begin > kMax) throw Refused{"it takes a part outside of its buffer"};
    const std::int64_t end = begin + (sizes.empty() ? 1 : sizes.back());
    BufferParts parts = types_.cut(buffer, begin, end);
    if (parts.empty()) throw Refused{"it takes a part outside of its buffer"};
    types_.set(result, std::move(parts));
    return end;
  }

  void each_part(const Node& node, const Op& op, const MeshGroup* group, ValueId buffer) {
    const BufferParts parts = *types_.parts(buffer);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      BufferParts results;
      for (const BufferPart& part : parts) {
        types_.set(buffer, part.type);
        results.push_back({part.length, result(node, op, group, i, part.length)});
      }
      types_.set(node.results[i], std::move(results));
    }
  }

  // Returns the group that a node names. Throws Refused if the mesh does not have it.
  const MeshGroup* group_of(const Node& node, const Op& op) const {
    std::string_view name;
    std::int64_t ranks = 0;
    if (const auto collective = collective_of(node)) {
      name = collective->group;
      ranks = collective->ranks;
    } else if (const auto* text = argument<std::string>(node, static_cast<std::size_t>(op.group))) {
      name = *text;
    }
    const auto group = groups_.find(name);
    if (group == groups_.end())
      throw Refused{fmt::format("it names the group \"{}\", which the mesh does not have", name)};
    std::int64_t product = 1;  // bounded, so that it does not overflow
    for (const std::int32_t axis : group->second->axes)
      product = std::min(product * graph_.mesh.axes.at(axis).ranks, std::int64_t{1} << 32);
    if (ranks != 0 && ranks != product)
      throw Refused{fmt::format("it names {} ranks, but group \"{}\" has {}", ranks, name, product)};
    return group->second;
  }

  // Infers the type of result i. `length` is that of the part of a buffer, or 0 for a whole value.
  ShardingType result(const Node& node, const Op& op, const MeshGroup* group, std::size_t i,
                      std::int64_t length = 0) {
    ShardingType type;
    if (op.shard == nullptr) {
      if (!all_replicated(node) || facts(node.op).effect == Effect::random)
        throw Refused{"its op has no rule of sharding (compiler/ops/op.h)"};
      return type;
    }
    for (std::size_t a = 0; a < axes_; ++a) {
      const bool in_group = group != nullptr && std::find(group->axes.begin(), group->axes.end(),
                                                          static_cast<std::int32_t>(a)) != group->axes.end();
      try {
        type.on[a] = op.shard({graph_, node, types_.on_axis(a), in_group}, i);
      } catch (const Refused& refused) {
        // Integers and booleans without a rule are local.
        if (group != nullptr || is_float(graph_.value(node.results[i]).type.dtype))
          throw Refused{"axis " + types_.axis_name(a) + ": " + refused.why};
        type.on[a] = kLocal;
      }
    }
    divide_repeated(node, op, type);
    carry_sizes(node, op, i, length, type);
    check_dims(node.results[i], type);
    return type;
  }

  bool all_replicated(const Node& node) const {
    bool replicated = true;
    for_each_operand(node, [&](ValueId id) { replicated = replicated && types_.of(id) == ShardingType{}; });
    return replicated;
  }

  // Clears `repeated` where the node divides by the number of the ranks that repeated the sum.
  void divide_repeated(const Node& node, const Op& op, ShardingType& type) const {
    const std::optional<double> by = op.kind == OpKind::division ? number(node, 1) : std::nullopt;
    if (!by) return;
    for (unsigned chosen = 1; chosen < (1U << axes_); ++chosen) {
      double times = 1;
      bool repeated = true;
      for (std::size_t a = 0; a < axes_; ++a)
        if ((chosen >> a & 1) != 0) {
          times *= static_cast<double>(graph_.mesh.axes[a].ranks);
          repeated = repeated && type.on[a].repeated;
        }
      if (!repeated || times != *by) continue;
      for (std::size_t a = 0; a < axes_; ++a)
        if ((chosen >> a & 1) != 0) type.on[a].repeated = false;
      return;
    }
  }

  // Passes the sizes before a flattening on to flat results, until a view restores them.
  void carry_sizes(const Node& node, const Op& op, std::size_t i, std::int64_t length, ShardingType& type) {
    const auto is_inner = [](const Placement& p) { return p.kind == Kind::inner; };
    if (std::none_of(type.on.begin(), type.on.end(), is_inner)) return;
    std::int32_t sizes = -1;
    for_each_operand(node, [&](ValueId id) {
      if (types_.unflattened(id) == -1) return;
      if (sizes != -1 && sizes != types_.unflattened(id))
        throw Refused{"it mixes tensors that were flattened from different sizes"};
      sizes = types_.unflattened(id);
    });
    type.unflattened = sizes;
    if (op.kind != OpKind::view) return;
    if (sizes == -1) {
      Sizes flattened = graph_.value(operand(node, 0)).type.sizes;
      if (length > 0) flattened.back() = length;
      types_.flatten(flattened, type);
    }
    if (type.unflattened != -1) types_.unflatten(graph_.value(node.results[i]).type.sizes, type);
  }

  // --- buffers of unlike parts ---

  // Sets the parts of the result and returns true if the node concatenates tensors that are sharded
  // differently.
  bool unlike_parts(const Node& node) {
    const auto* list = argument<UseList>(node, 0);
    const Sizes& sizes = graph_.value(node.results[0]).type.sizes;
    const bool stacks = node.op == "aten.stack.default";
    if (list == nullptr || list->values.empty() || sizes.empty() || sizes.size() > 2) return false;
    if (dim_of(integer(node, 1), sizes.size()) != static_cast<int>(sizes.size()) - 1) return false;
    BufferParts parts;
    for (const ValueId id : list->values) {
      if (id == kNoValue) continue;
      const Sizes& own = graph_.value(id).type.sizes;
      const std::int64_t length = stacks || own.empty() ? 1 : own.back();
      if (const BufferParts* inside = types_.parts(id)) {
        parts.insert(parts.end(), inside->begin(), inside->end());
      } else {
        parts.push_back({length, types_.of(id)});
      }
    }
    if (stacks && sizes.size() == 2) return false;
    types_.set(node.results[0], std::move(parts));
    return types_.parts(node.results[0]) != nullptr;
  }

  // --- ops over lists ---

  void sums_of_squares(const Node& node) {
    BufferParts sums;
    for_each_operand(node, [&](ValueId id) {
      squared_.push_back(id);
      BufferPart sum{1, {}};
      for (std::size_t a = 0; a < axes_; ++a) {
        const Placement p = types_.on_axis(a)[id];
        if (p.kind == Kind::sharded || p.kind == Kind::inner) {
          sum.type.on[a] = kPartialSum;
        } else if (p.kind != Kind::replicated && p.kind != Kind::zero) {
          throw Refused{
              fmt::format("axis {}: it squares an operand that is \"{}\"", types_.axis_name(a), print(p))};
        }
        if (p.repeated) throw Refused{"it squares an operand that is repeated over ranks"};
      }
      sums.push_back(sum);
    });
    types_.set(node.results[0], std::move(sums));
  }

  // Requires that the tensors of a parameter in all lists are sharded alike, and that all other
  // operands are replicated. Updates that are no gradients may come from an exchange: pieces of
  // flat tensors, whose type does not say along which dimension these were divided.
  void optimizer(const Node& node) {
    const std::vector<const UseList*> lists = lists_of(node);
    const Op& op = functional_facts(node.op);
    if (std::ssize(lists) <= op.overwritten) throw Refused{"one of its lists has no tensors"};
    const UseList& parameters = *lists[0];
    if (const auto* gradients = argument<UseList>(node, static_cast<std::size_t>(op.gradients)))
      updated_.insert(updated_.end(), gradients->values.begin(), gradients->values.end());
    if (!squared_.empty() && is_last_update(node)) {
      std::sort(updated_.begin(), updated_.end());
      std::sort(squared_.begin(), squared_.end());
      if (updated_ != squared_)
        throw Refused{"the gradient norm must count each gradient of the updates once"};
    }
    std::size_t next = 0;
    for (const UseList* list : lists) {
      for (std::size_t i = 0; i < list->values.size() && i < parameters.values.size(); ++i) {
        if (parameters.values[i] == kNoValue || list->values[i] == kNoValue)
          throw Refused{"a tensor of its lists is missing"};
        const ShardingType parameter = types_.of(parameters.values[i]), own = types_.of(list->values[i]);
        const bool is_piece = op.gradients < 0 && own == as_piece(parameter);
        if (as_flat(own) != as_flat(parameter) && !is_piece)
          throw Refused{fmt::format("{} is sharded as {}, but another tensor of its update as {}",
                                    input_name(parameters.values[i]), types_.text(parameter),
                                    types_.text(own))};
        if (next < node.results.size()) types_.set(node.results[next++], own);
      }
    }
    for (const Argument& arg : node.args)
      if (const auto* use = std::get_if<Use>(&arg); use != nullptr && types_.of(use->value) != ShardingType{})
        throw Refused{fmt::format("a number of the update must be replicated, but is {}",
                                  types_.text(types_.of(use->value)))};
  }
  // Each group of parameters has its own update.
  bool is_last_update(const Node& node) {
    const auto last = std::find_if(graph_.nodes.rbegin(), graph_.nodes.rend(), [&](const Node& other) {
      return functional_facts(other.op).kind == OpKind::optimizer;
    });
    return &*last == &node;
  }
  std::string input_name(ValueId id) const {
    const ValueId root = storage_root(graph_, id);
    for (const Input& input : graph_.inputs)
      if (input.value == root) return input.name;
    return fmt::format("%{}", id);
  }

  void outputs() {
    const Node& end = graph_.return_node();
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      const ValueId id = operand(end, i);
      if (id == kNoValue) continue;
      const BufferParts* const parts = types_.parts(id);
      const auto common = parts == nullptr ? types_.of(id) : common_type(*parts);
      if (!common)
        throw Refused{fmt::format("output \"{}\" has parts that are sharded differently", output.name)};
      const ShardingType expected =
          output.updates < 0
              ? ShardingType{}
              : types_.type_of(graph_.inputs[static_cast<std::size_t>(output.updates)].sharding);
      ShardingType type = *common;
      for (std::size_t a = 0; a < axes_; ++a)
        if (type.on[a].kind == Kind::zero) {
          type.on[a] = expected.on[a];
          type.unflattened = expected.unflattened;
        }
      if (as_flat(type) == as_flat(expected)) continue;
      throw Refused{fmt::format("output \"{}\" is sharded as {}, but must be sharded as {}", output.name,
                                types_.text(type), types_.text(expected))};
    }
  }

  const Graph& graph_;
  ValueShardings types_;
  const std::size_t axes_;
  std::vector<ValueId> squared_;  // gradients that the norm counts
  std::vector<ValueId> updated_;  // the gradients of the updates so far
  std::map<std::string, const MeshGroup*, std::less<>> groups_;
};

}  // namespace

void shardings_agree(const Graph& graph) {
  if (!graph.mesh.axes.empty()) Inference(graph).walk();
}

IdMap<std::optional<Sharding>> value_shardings(const Graph& graph) {
  IdMap<std::optional<Sharding>> shardings(graph.values.size(), Sharding{});
  if (graph.mesh.axes.empty()) return shardings;
  Inference inference(graph);
  inference.walk();
  const ValueShardings& types = inference.types();
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const ShardingType type = types.of(id);
    Sharding& sharding = *shardings[id];
    for (std::size_t a = 0; a < types.axes(); ++a)  // zeros are replicated
      sharding.axes.push_back(type.on[a].kind == Kind::zero ? kReplicated : type.on[a]);
    if (type.unflattened >= 0) sharding.unflattened = types.sizes(type.unflattened);
    if (types.parts(id) != nullptr) shardings[id].reset();
  }
  return shardings;
}

IdMap<std::string> sharding_comments(const Graph& graph) {
  IdMap<std::string> comments(graph.values.size());
  if (graph.mesh.axes.empty()) return comments;
  Inference inference(graph);
  try {
    inference.walk();
  } catch (const VerifyError& error) {
    if (error.node < 0) return comments;
    for (ValueId id : graph.nodes[error.node].results) comments[id] = "refused: " + error.what;
  }
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (comments[id].empty()) comments[id] = inference.types().text(id);
  return comments;
}

}  // namespace rondo::ir

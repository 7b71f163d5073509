// What each op makes of the types of sharding of its operands (compiler/ir/sharding.h), an axis of the mesh
// at a time. What a rule cannot say it refuses: an op that is not linear takes no summands, no product takes
// two, nothing adds a summand to what is whole, no dimension is cut twice.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ir/id_map.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// Why a node has no type.
struct Refused {
  std::string why;
};

// A node as one axis sees it.
struct OnAxis {
  const Graph& graph;
  const Node& node;
  const IdMap<Placement>& placed;  // of the values that stand above, on this axis
  bool in_group = false;           // the axis is one of the group that the node names

  // Of argument i; replicated where that is no tensor.
  Placement operand(std::size_t i) const;
  const TensorType& type(std::size_t i) const;  // a scalar's where argument i is no tensor
  const TensorType& result(std::size_t i) const { return graph.value(node.results[i]).type; }
  bool has(std::size_t i) const { return ir::operand(node, i) != kNoValue; }
  std::int64_t integer(std::size_t i) const;  // 0 where argument i is none
};

// Of result `i`. Throws Refused.
using ShardingRule = Placement (*)(const OnAxis&, std::size_t i);

// "aten.add_.Tensor" -> "aten.add.Tensor"
std::string without_overwriting(const std::string& op);

// Ops with types that are not of one axis alone: what infer_sharding.cpp does besides, or instead.
enum class OpKind : std::uint8_t {
  other,
  optimizer,  // lists of parameters, moments and gradients
  squares,    // one sum of squares of each tensor of a list
  list,       // tensors one behind the other
  split,      // consecutive pieces
  piece,      // one of them
  view,
  division,
};
struct NamedRule {
  std::string_view op;
  ShardingRule rule;  // nullptr: none
  OpKind kind = OpKind::other;
};
// Of an op in the form that overwrites nothing.
NamedRule sharding_rule(std::string_view op);
// Whether an op passes the parts of a buffer on as they are. In the same form.
bool keeps_parts(std::string_view op);

// What the names of a graph's ops say, Known(name), each worked out once. The graph outlives this.
template <class Known>
class KnownOps {
 public:
  const Known& of(const Node& node) {
    auto found = known_.find(node.op);
    if (found == known_.end()) found = known_.emplace(node.op, Known(node.op)).first;
    return found->second;
  }

 private:
  std::unordered_map<std::string_view, Known> known_;
};

std::span<const NamedRule> arithmetic_rules();  // element by element, constants, reductions
std::span<const NamedRule> product_rules();     // matrix products, attention, fused ops
std::span<const NamedRule> row_rules();         // ids, rows, experts
std::span<const NamedRule> view_rules();        // views, pieces, concatenation
std::span<const NamedRule> collective_rules();

// What two operands of a sum, and of a product, give: placements that refer to the same dimensions.
Placement sum_of(const Placement& a, const Placement& b);
Placement product_of(const Placement& a, const Placement& b);
// What something that is not linear makes of it.
Placement nonlinear(const Placement& p);
bool is_partial(const Placement& p);

// Returns where a view of sizes `to` has the part of a tensor of sizes `from`; std::nullopt where no
// dimension of the view has it.
std::optional<Placement> placement_in_view(const Placement& p, const std::vector<std::int64_t>& from,
                                           const std::vector<std::int64_t>& to);

// Whole numbers and truths.
bool is_integer(DType dtype);
// A dimension as counted from the front.
int dim_of(std::int64_t dim, std::size_t dims);

}  // namespace rondo::ir

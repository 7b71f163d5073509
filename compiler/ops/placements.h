// Helpers of the rules of sharding, which compute the placements of a node's results on one axis of
// the mesh from those of its operands (compiler/ir/sharding.h). A rule refuses what it cannot
// describe: an op that is not linear accepts no partial operand, a product accepts one, a sum
// requires that all or no operands are partial, and no dimension is sharded twice.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/id_map.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// The reason for which a node has no type of sharding.
struct Refused {
  std::string why;
};

// A node on one axis.
struct OnAxis {
  const Graph& graph;
  const Node& node;
  const IdMap<Placement>& placed;  // of the values before the node, on this axis
  bool in_group = false;           // the node names a group with this axis

  Placement of(ValueId id) const { return id == kNoValue ? kReplicated : placed[id]; }
  // Returns the placement of argument i; replicated if it is not a tensor.
  Placement operand(std::size_t i) const { return of(ir::operand(node, i)); }
  const TensorType& type(std::size_t i) const;  // a scalar's if argument i is not a tensor
  const TensorType& result(std::size_t i) const { return graph.value(node.results[i]).type; }
  bool has(std::size_t i) const { return ir::operand(node, i) != kNoValue; }
  std::int64_t integer(std::size_t i) const { return ir::integer(node, i); }
  bool is_zero(std::size_t i) const { return number(node, i) == 0.0; }
};

// The rule of copies, waits and views that move no dimension. Returns the placement of argument 0.
Placement as_operand(const OnAxis& axis, std::size_t i);

// Returns the placement of a sum or a product of two operands with equal dimensions.
Placement sum_of(const Placement& a, const Placement& b);
Placement product_of(const Placement& a, const Placement& b);
// Returns the placement of a nonlinear function of the operand.
Placement nonlinear(const Placement& p);
bool is_partial(const Placement& p);

// Throws Refused unless a rank has whole rows.
Placement require_whole_rows(const Placement& p);
// Throws Refused unless argument i, such as a weight that is applied to all rows, is replicated.
void require_replicated(const OnAxis& axis, std::size_t i, const std::string& name);

// Returns the placement of a view of sizes `to` of a tensor of sizes `from`, or std::nullopt if no
// dimension of the view corresponds to the sharded one.
std::optional<Placement> placement_in_view(const Placement& p, const std::vector<std::int64_t>& from,
                                           const std::vector<std::int64_t>& to);
// Returns the dimensions whose size is not 1.
std::vector<std::size_t> counted_dims(const std::vector<std::int64_t>& sizes);

// Returns a dimension counted from the front.
int dim_of(std::int64_t dim, std::size_t dims);

}  // namespace rondo::ir

// Placements of a node's results on one axis of the mesh, from those of its operands
// (compiler/ir/sharding.h): what the rules of sharding of all ops share. A rule refuses what it
// cannot describe: an op that is not linear accepts no partial sums, a product accepts one, a sum
// accepts them of all operands or of none, and no dimension is sharded twice.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/id_map.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// Why a node has no type of sharding.
struct Refused {
  std::string why;
};

// A node on one axis.
struct OnAxis {
  const Graph& graph;
  const Node& node;
  const IdMap<Placement>& placed;  // of the values above the node, on this axis
  bool in_group = false;           // the node names a group that has this axis

  Placement of(ValueId id) const { return id == kNoValue ? kReplicated : placed[id]; }
  // Of argument i; replicated where that is no tensor.
  Placement operand(std::size_t i) const { return of(ir::operand(node, i)); }
  const TensorType& type(std::size_t i) const;  // a scalar's where argument i is no tensor
  const TensorType& result(std::size_t i) const { return graph.value(node.results[i]).type; }
  bool has(std::size_t i) const { return ir::operand(node, i) != kNoValue; }
  std::int64_t integer(std::size_t i) const { return ir::integer(node, i); }
  bool is_zero(std::size_t i) const { return number(node, i) == 0.0; }
};

// The rule of copies, waits and views that move no dimension: the placement of argument 0.
Placement as_operand(const OnAxis& at, std::size_t i);

// The placements of a sum and of a product of two operands with the same dimensions.
Placement sum_of(const Placement& a, const Placement& b);
Placement product_of(const Placement& a, const Placement& b);
// The placement of a function of the operand that is not linear.
Placement nonlinear(const Placement& p);
bool is_partial(const Placement& p);

// Throws Refused unless a rank has whole rows.
Placement require_whole_rows(const Placement& p);
// Throws Refused unless argument i, a weight that meets all rows, is whole on each rank.
void require_whole_weight(const OnAxis& at, std::size_t i);

// Where a view of sizes `to` has the part of a tensor of sizes `from`; std::nullopt if no dimension
// of the view has it.
std::optional<Placement> placement_in_view(const Placement& p, const std::vector<std::int64_t>& from,
                                           const std::vector<std::int64_t>& to);
// The dimensions of more than one element.
std::vector<std::size_t> counted_dims(const std::vector<std::int64_t>& sizes);

// A dimension, counted from the front.
int dim_of(std::int64_t dim, std::size_t dims);

}  // namespace rondo::ir

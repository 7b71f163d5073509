// Views, pieces and concatenation: a rule finds the dimension of the result that a dimension of the
// operand becomes. Dimensions of a view are matched by the number of elements in front of them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;
using Sizes = std::vector<std::int64_t>;

Placement moved(Placement p, int dim) { return p.dim = static_cast<std::int8_t>(dim), p; }

// The dimension of `to` that begins where dimension `dim` of `from` does and divides it, or is made
// of it and those behind it; -1 where there is none. A part may be of one element, so of several
// that begin there the place among them counts.
int dim_in_view(const Sizes& from, int dim, const Sizes& to) {
  const auto at = static_cast<std::size_t>(dim);
  std::int64_t before = 1;  // elements in front of it
  std::size_t place = 0;    // dimensions of one element in front of it
  for (std::size_t d = 0; d < at; ++d) {
    before *= from[d];
    place = from[d] == 1 ? place + 1 : 0;
  }
  std::size_t found = 0;
  std::int64_t behind = 1;
  while (found < to.size() && behind != before) behind *= to[found++];
  if (before == 0 || found == to.size()) return -1;
  for (; place > 0 && to[found] == 1 && found + 1 < to.size(); --place) ++found;
  const std::int64_t size = from[at], made = to[found];
  return size != 0 && made != 0 && (made % size == 0 || size % made == 0) ? static_cast<int>(found) : -1;
}

// compiler/verify/infer_sharding.cpp gives a flattened tensor its sizes again.
Placement view(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (const auto placement = placement_in_view(p, at.type(0).sizes, at.result(0).sizes)) return *placement;
  throw Refused{fmt::format("dimension {}, of which each rank has a part, is none of the view's", p.dim)};
}

Placement transposed(const OnAxis& at, std::int64_t a, std::int64_t b) {
  const Placement p = at.operand(0);
  if (p.kind != Kind::sharded) return p;
  const std::size_t dims = at.type(0).sizes.size();
  const int first = dim_of(a, dims), second = dim_of(b, dims);
  return moved(p, p.dim == first ? second : p.dim == second ? first : p.dim);
}
Placement t(const OnAxis& at, std::size_t) {
  return at.type(0).sizes.size() < 2 ? at.operand(0) : transposed(at, 0, 1);
}
Placement transpose(const OnAxis& at, std::size_t) { return transposed(at, at.integer(1), at.integer(2)); }

Placement permute(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  const auto* order = argument<Sizes>(at.node, 1);
  if (p.kind != Kind::sharded || order == nullptr) return p;
  const std::size_t dims = order->size();
  const auto found = std::find_if(order->begin(), order->end(),
                                  [&](std::int64_t dim) { return dim_of(dim, dims) == p.dim; });
  return moved(p, static_cast<int>(found - order->begin()));
}

Placement expand(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  const int added = static_cast<int>(at.result(0).sizes.size() - at.type(0).sizes.size());
  return p.kind == Kind::sharded ? moved(p, p.dim + added) : p;
}
Placement unsqueeze(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  const int dim = dim_of(at.integer(1), at.result(0).sizes.size());
  return p.kind == Kind::sharded ? moved(p, p.dim + (p.dim >= dim ? 1 : 0)) : p;
}
Placement squeeze(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (p.kind != Kind::sharded) return p;
  const Sizes &from = at.type(0).sizes, &to = at.result(0).sizes;
  int gone = 0;  // dimensions of one element leave in order, so those that stay match from the front
  for (int d = 0; d < p.dim; ++d) {
    const auto kept = static_cast<std::size_t>(d - gone);
    gone += kept >= to.size() || to[kept] != from[static_cast<std::size_t>(d)];
  }
  return moved(p, p.dim - gone);
}

// Takes one element of a dimension, which leaves, or some elements. What was put together along a
// dimension of which each rank has a part, a buffer or the rows of several weights, is taken apart
// again: the rule does not say where.
Placement taken(const OnAxis& at, std::int64_t along, bool leaves) {
  const Placement p = at.operand(0);
  if (p.kind != Kind::sharded) return p;
  const int dim = dim_of(along, at.type(0).sizes.size());
  if (p.dim == dim && leaves)
    throw Refused{"it takes an element of a dimension of which each rank has a part"};
  return moved(p, p.dim - (leaves && p.dim > dim ? 1 : 0));
}
Placement select(const OnAxis& at, std::size_t) { return taken(at, Piece(at.node).dim, true); }  // or unbind
Placement slice(const OnAxis& at, std::size_t) { return taken(at, Piece(at.node).dim, false); }
Placement split(const OnAxis& at, std::size_t) { return taken(at, dim_of_split(at.node), false); }

// Of the tensors of the list that is argument 0.
Placement cat(const OnAxis& at, std::size_t) {
  Placement made = kZero;
  const auto* list = argument<UseList>(at.node, 0);
  if (list == nullptr) return kReplicated;
  for (const ValueId id : list->values)
    if (id != kNoValue) made = sum_of(made, at.placed[id]);
  return made;
}
Placement stack(const OnAxis& at, std::size_t i) {
  const Placement p = cat(at, i);
  const int dim = dim_of(at.integer(1), at.result(0).sizes.size());
  return p.kind == Kind::sharded ? moved(p, p.dim + (p.dim >= dim ? 1 : 0)) : p;
}
// (x, sizes, number): padding of a flat buffer, or of dimensions that are whole.
Placement pad(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (p.kind != Kind::sharded || at.type(0).sizes.size() == 1) return p;
  const auto dim = static_cast<std::size_t>(p.dim);
  if (at.type(0).sizes[dim] != at.result(0).sizes[dim])
    throw Refused{"it pads a dimension of which each rank has a part"};
  return p;
}

constexpr Op kViewOps[] = {
    {.name = "aten._unsafe_view.default",
     .view = ViewKind::same_start,
     .shard = view,
     .kind = OpKind::view,
     .keeps_parts = true},
    {.name = "aten.alias.default", .view = ViewKind::same_start, .shard = as_operand, .keeps_owner = true},
    {.name = "aten.detach.default", .view = ViewKind::same_start, .shard = as_operand, .keeps_parts = true},
    {.name = "aten.expand.default", .view = ViewKind::same_start, .shard = expand},
    {.name = "aten.permute.default", .view = ViewKind::same_start, .shard = permute},
    {.name = "aten.squeeze.default", .view = ViewKind::same_start, .shard = squeeze},
    {.name = "aten.squeeze.dim", .view = ViewKind::same_start, .shard = squeeze},
    {.name = "aten.squeeze.dims", .view = ViewKind::same_start, .shard = squeeze},
    {.name = "aten.t.default", .view = ViewKind::same_start, .shard = t},
    {.name = "aten.transpose.int", .view = ViewKind::same_start, .shard = transpose},
    {.name = "aten.unsqueeze.default", .view = ViewKind::same_start, .shard = unsqueeze},
    {.name = "aten.view.default",
     .view = ViewKind::same_start,
     .shard = view,
     .kind = OpKind::view,
     .keeps_parts = true},

    {.name = "aten.as_strided.default", .view = ViewKind::moved_start},
    {.name = "aten.diagonal.default", .view = ViewKind::moved_start},
    {.name = "aten.select.int", .view = ViewKind::moved_start, .shard = select, .kind = OpKind::piece},
    {.name = "aten.slice.Tensor", .view = ViewKind::moved_start, .shard = slice, .kind = OpKind::piece},
    {.name = "aten.split.Tensor", .view = ViewKind::moved_start, .shard = split},
    {.name = "aten.split_with_sizes.default",
     .view = ViewKind::moved_start,
     .shard = split,
     .kind = OpKind::split},
    {.name = "aten.unbind.int", .view = ViewKind::moved_start, .shard = select},
    {.name = "aten.unfold.default", .view = ViewKind::moved_start},

    {.name = "aten.cat.default", .shard = cat, .kind = OpKind::list},
    {.name = "aten.constant_pad_nd.default", .shard = pad, .keeps_owner = true},
    {.name = "aten.split_with_sizes_copy.default", .shard = split, .kind = OpKind::split},
    {.name = "aten.stack.default", .shard = stack, .kind = OpKind::list},
};

}  // namespace

std::span<const Op> view_ops() { return kViewOps; }

std::optional<Placement> placement_in_view(const Placement& p, const Sizes& from, const Sizes& to) {
  if (p.kind != Kind::sharded) return p;
  const std::vector<std::size_t> counted = counted_dims(from);
  const bool others_count = std::any_of(counted.begin(), counted.end(), [&](std::size_t dim) {
    return dim != static_cast<std::size_t>(p.dim);
  });
  if (to.size() == 1 && p.dim > 0 && others_count) return Placement{Kind::inner, p.dim, p.repeated};
  const int dim = dim_in_view(from, p.dim, to);
  return dim < 0 ? std::nullopt : std::optional(moved(p, dim));
}

}  // namespace rondo::ir

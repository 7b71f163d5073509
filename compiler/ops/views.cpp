// Views, pieces and concatenation. A rule finds the dimension of the result that corresponds to the
// sharded dimension of the operand. Dimensions of a view are matched by the number of elements
// before them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;
using Sizes = std::vector<std::int64_t>;

Placement moved(Placement p, int dim) { return p.dim = static_cast<std::int8_t>(dim), p; }

// Returns the dimension of `to` that begins where dimension `dim` of `from` does, and that divides
// it or consists of it and the dimensions after it; -1 if there is none. A part may have one
// element. So among several dimensions that begin there, the place among them decides.
int dim_in_view(const Sizes& from, int dim, const Sizes& to) {
  const auto at = static_cast<std::size_t>(dim);
  std::int64_t before = 1;  // elements before it
  std::size_t place = 0;    // dimensions of one element directly before it
  for (std::size_t d = 0; d < at; ++d) {
    before *= from[d];
    place = from[d] == 1 ? place + 1 : 0;
  }
  std::size_t match = 0;
  std::int64_t passed = 1;
  while (match < to.size() && passed != before) passed *= to[match++];
  if (before == 0 || match == to.size()) return -1;
  for (; place > 0 && to[match] == 1 && match + 1 < to.size(); --place) ++match;
  const std::int64_t size = from[at], new_size = to[match];
  const bool fits = size != 0 && new_size != 0 && (new_size % size == 0 || size % new_size == 0);
  return fits ? static_cast<int>(match) : -1;
}

// Returns whether an update views matrices [A, B, rows, columns] as one batch of matrices. A rank
// then has some of the batch, whichever they are. Elsewhere a later gather would rely on the order.
bool is_batch_of_update(const OnAxis& axis) {
  const Sizes &from = axis.type(0).sizes, &to = axis.result(0).sizes;
  return axis.node.phase == Phase::update && from.size() == 4 && to.size() == 3 &&
         std::equal(from.begin() + 2, from.end(), to.begin() + 1);
}

// compiler/verify/infer_sharding.cpp restores the sizes of a flattened tensor.
Placement view(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (p.kind == Kind::sharded && p.dim < 2 && is_batch_of_update(axis)) return moved(p, 0);
  if (const auto placement = placement_in_view(p, axis.type(0).sizes, axis.result(0).sizes))
    return *placement;
  throw Refused{fmt::format("dimension {} is sharded, but the view has no such dimension", p.dim)};
}

Placement transposed(const OnAxis& axis, std::int64_t a, std::int64_t b) {
  const Placement p = axis.operand(0);
  if (p.kind != Kind::sharded) return p;
  const std::size_t dims = axis.type(0).sizes.size();
  const int first = dim_of(a, dims), second = dim_of(b, dims);
  return moved(p, p.dim == first ? second : p.dim == second ? first : p.dim);
}
Placement t(const OnAxis& axis, std::size_t) {
  return axis.type(0).sizes.size() < 2 ? axis.operand(0) : transposed(axis, 0, 1);
}
Placement transpose(const OnAxis& axis, std::size_t) {
  return transposed(axis, axis.integer(1), axis.integer(2));
}

Placement permute(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  const auto* order = argument<Sizes>(axis.node, 1);
  if (p.kind != Kind::sharded || order == nullptr) return p;
  const std::size_t dims = order->size();
  const auto place = std::find_if(order->begin(), order->end(),
                                  [&](std::int64_t dim) { return dim_of(dim, dims) == p.dim; });
  return moved(p, static_cast<int>(place - order->begin()));
}

Placement expand(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  const int added = static_cast<int>(axis.result(0).sizes.size() - axis.type(0).sizes.size());
  return p.kind == Kind::sharded ? moved(p, p.dim + added) : p;
}
Placement unsqueeze(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  const int dim = dim_of(axis.integer(1), axis.result(0).sizes.size());
  return p.kind == Kind::sharded ? moved(p, p.dim + (p.dim >= dim ? 1 : 0)) : p;
}
Placement squeeze(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (p.kind != Kind::sharded) return p;
  const Sizes &from = axis.type(0).sizes, &to = axis.result(0).sizes;
  // Squeezed dimensions have one element, so the remaining ones match from the front.
  int squeezed = 0;
  for (int d = 0; d < p.dim; ++d) {
    const auto remaining = static_cast<std::size_t>(d - squeezed);
    squeezed += remaining >= to.size() || to[remaining] != from[static_cast<std::size_t>(d)];
  }
  return moved(p, p.dim - squeezed);
}

// Takes one element of a dimension, which is removed if `leaves`, or some elements of it. Along a
// sharded dimension it splits what was concatenated: a buffer, or the rows of several weights. The
// rule does not check where.
Placement taken(const OnAxis& axis, std::int64_t along, bool leaves) {
  const Placement p = axis.operand(0);
  if (p.kind != Kind::sharded) return p;
  const int dim = dim_of(along, axis.type(0).sizes.size());
  if (p.dim == dim && leaves) throw Refused{"it takes an element of a sharded dimension"};
  return moved(p, p.dim - (leaves && p.dim > dim ? 1 : 0));
}
// The rule of aten.select and aten.unbind.
Placement select(const OnAxis& axis, std::size_t) { return taken(axis, Piece(axis.node).dim, true); }
Placement slice(const OnAxis& axis, std::size_t) { return taken(axis, Piece(axis.node).dim, false); }
Placement split(const OnAxis& axis, std::size_t) { return taken(axis, dim_of_split(axis.node), false); }

// Argument 0 is the list of tensors.
Placement cat(const OnAxis& axis, std::size_t) {
  Placement result = kZero;
  const auto* list = argument<UseList>(axis.node, 0);
  if (list == nullptr) return kReplicated;
  for (const ValueId id : list->values)
    if (id != kNoValue) result = sum_of(result, axis.placed[id]);
  return result;
}
Placement stack(const OnAxis& axis, std::size_t i) {
  const Placement p = cat(axis, i);
  const int dim = dim_of(axis.integer(1), axis.result(0).sizes.size());
  return p.kind == Kind::sharded ? moved(p, p.dim + (p.dim >= dim ? 1 : 0)) : p;
}
// (x, sizes, number): pads a flat buffer, or dimensions that are whole.
Placement pad(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (p.kind != Kind::sharded || axis.type(0).sizes.size() == 1) return p;
  const auto dim = static_cast<std::size_t>(p.dim);
  if (axis.type(0).sizes[dim] != axis.result(0).sizes[dim]) throw Refused{"it pads a sharded dimension"};
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

// Views, pieces and concatenation: where a dimension of the operand is in the result. Dimensions of a view
// are matched by the elements that stand before them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/verify/sharding_rules.h"
#include "compiler/verify/value_shardings.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;
using Sizes = std::vector<std::int64_t>;

Placement moved(Placement p, int dim) { return p.dim = static_cast<std::int8_t>(dim), p; }

// The dimension of `to` that begins where dimension `dim` of `from` does and divides it, or is made of it and
// those behind it; -1 where there is none. A part may be of one element, so of several that begin there the
// place among them counts.
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

// What was flattened has its sizes again: infer_sharding.cpp.
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
  const auto* order = at.node.args.size() > 1 ? std::get_if<Sizes>(&at.node.args[1]) : nullptr;
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

// Of dimension `along` one element is taken, or some. What was put together along a dimension of which each
// rank has a part, a buffer or the rows of several weights, is taken apart again: nothing is said of where.
Placement taken(const OnAxis& at, std::int64_t along, bool leaves) {
  const Placement p = at.operand(0);
  if (p.kind != Kind::sharded) return p;
  const int dim = dim_of(along, at.type(0).sizes.size());
  if (p.dim == dim && leaves)
    throw Refused{"it takes an element of a dimension of which each rank has a part"};
  return moved(p, p.dim - (leaves && p.dim > dim ? 1 : 0));
}
Placement select(const OnAxis& at, std::size_t) { return taken(at, at.integer(1), true); }
Placement unbind(const OnAxis& at, std::size_t) { return taken(at, at.integer(1), true); }
Placement slice(const OnAxis& at, std::size_t) { return taken(at, at.integer(1), false); }
Placement split(const OnAxis& at, std::size_t) { return taken(at, at.integer(2), false); }

// The tensors of the list that is argument 0, beside each other.
Placement of_list(const OnAxis& at) {
  Placement made = kZero;
  const auto* list = at.node.args.empty() ? nullptr : std::get_if<UseList>(&at.node.args[0]);
  if (list == nullptr) return kReplicated;
  for (const ValueId id : list->values)
    if (id != kNoValue) made = sum_of(made, at.placed[id]);
  return made;
}
Placement cat(const OnAxis& at, std::size_t) { return of_list(at); }
Placement stack(const OnAxis& at, std::size_t) {
  const Placement p = of_list(at);
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

constexpr NamedRule kViewRules[] = {
    {"aten._unsafe_view.default", view, OpKind::view},
    {"aten.cat.default", cat, OpKind::list},
    {"aten.constant_pad_nd.default", pad},
    {"aten.expand.default", expand},
    {"aten.permute.default", permute},
    {"aten.select.int", select, OpKind::piece},
    {"aten.slice.Tensor", slice, OpKind::piece},
    {"aten.split.Tensor", split},
    {"aten.split_with_sizes.default", split, OpKind::split},
    {"aten.split_with_sizes_copy.default", split, OpKind::split},
    {"aten.squeeze.default", squeeze},
    {"aten.squeeze.dim", squeeze},
    {"aten.squeeze.dims", squeeze},
    {"aten.stack.default", stack, OpKind::list},
    {"aten.t.default", t},
    {"aten.transpose.int", transpose},
    {"aten.unbind.int", unbind},
    {"aten.unsqueeze.default", unsqueeze},
    {"aten.view.default", view, OpKind::view},
};

}  // namespace

std::span<const NamedRule> view_rules() { return kViewRules; }

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

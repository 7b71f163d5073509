// Placements combine pairwise. Zeros are compatible with everything, replicated operands with any
// sharded one, and a partial operand with replicated factors only.
#include "compiler/ops/placements.h"

#include <fmt/format.h>

#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

[[noreturn]] void refuse(const char* why, const Placement& a, const Placement& b) {
  throw Refused{fmt::format("{} \"{}\" and \"{}\"", why, print(a), print(b))};
}

// Returns the placement of an elementwise op on two operands. REQUIRES: neither is partial.
Placement elementwise(const Placement& a, const Placement& b) {
  if (a == b || b.kind == Kind::zero || b.kind == Kind::replicated) return a;
  if (a == inner(0) && b == sharded(0)) return a;  // as_flat (compiler/verify/value_shardings.h)
  if (b == inner(0) && a == sharded(0)) return b;
  if (a.kind == Kind::zero || a.kind == Kind::replicated) return b;
  if (a.kind == Kind::local || b.kind == Kind::local) return kLocal;
  refuse("the operands are sharded differently,", a, b);
}

}  // namespace

const TensorType& OnAxis::type(std::size_t i) const {
  static const TensorType kScalar;
  const ValueId id = ir::operand(node, i);
  return id == kNoValue ? kScalar : graph.value(id).type;
}

Placement as_operand(const OnAxis& axis, std::size_t) { return axis.operand(0); }

bool is_partial(const Placement& p) { return p.kind == Kind::partial_sum || p.kind == Kind::partial_max; }

Placement nonlinear(const Placement& p) {
  if (is_partial(p)) throw Refused{"it is not linear, but an operand is partial"};
  if (p.repeated) throw Refused{"it is not linear, but an operand is repeated over ranks"};
  return p.kind == Kind::zero ? kReplicated : p;
}

Placement sum_of(const Placement& a, const Placement& b) {
  if (a.kind == Kind::zero) return b;
  if (b.kind == Kind::zero || a == b) return a;
  if (a.kind == Kind::partial_max && b == kReplicated) return a;
  if (is_partial(a) || is_partial(b)) refuse("it adds a partial operand to one that is not,", a, b);
  if (a.repeated || b.repeated)
    refuse("it adds an operand that is repeated over ranks to one that is not,", a, b);
  return elementwise(a, b);
}

Placement product_of(const Placement& a, const Placement& b) {
  if (a.kind == Kind::zero || b.kind == Kind::zero) return kZero;
  // Scales a sum relative to the rank's maximum to the maximum of all ranks.
  if (a.kind == Kind::partial_sum && b.kind == Kind::partial_max) return a;
  if (is_partial(a) && is_partial(b)) refuse("it multiplies two partial operands,", a, b);
  if (a.kind == Kind::partial_sum && b == kReplicated) return a;
  if (b.kind == Kind::partial_sum && a == kReplicated) return b;
  if (a.kind == Kind::partial_sum || b.kind == Kind::partial_sum)
    refuse("it multiplies a partial sum by an operand that differs between ranks,", a, b);
  if (a.repeated && b.repeated) refuse("both factors are repeated over ranks,", a, b);
  const auto once = [](Placement p) { return p.repeated = false, p; };
  Placement product = elementwise(nonlinear(once(a)), nonlinear(once(b)));
  product.repeated = a.repeated || b.repeated;
  return product;
}

Placement require_whole_rows(const Placement& p) {
  if (p.kind == Kind::inner || (p.kind == Kind::sharded && p.dim != 0))
    throw Refused{"it needs whole rows, but each rank has a part of them"};
  return p;
}

void require_replicated(const OnAxis& axis, std::size_t i, const std::string& name) {
  if (const Placement p = axis.operand(i); p != kReplicated)
    throw Refused{fmt::format("its {} is \"{}\", but must be replicated", name, print(p))};
}

int dim_of(std::int64_t dim, std::size_t dims) {
  return static_cast<int>(dim < 0 ? dim + static_cast<std::int64_t>(dims) : dim);
}

std::vector<std::size_t> counted_dims(const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) dims.push_back(d);
  return dims;
}

}  // namespace rondo::ir

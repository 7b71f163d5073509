// RMSNorm and its backward. A rank has whole rows, and all of the weight.
#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"

namespace rondo::ir {
namespace {

Placement whole_rows(const OnAxis& axis, const Placement& x) {
  const int last = static_cast<int>(axis.type(0).sizes.size()) - 1;
  if (x.kind == Placement::Kind::inner || x == sharded(last)) require_whole_rows(sharded(1));
  return x;
}
Placement rms_norm(const OnAxis& axis, std::size_t) {  // (x, weight, eps)
  require_replicated(axis, 1, "weight");
  return whole_rows(axis, nonlinear(axis.operand(0)));
}
// (x, residual, weight, eps): the sum of x and residual, and its norm.
Placement add_rms_norm(const OnAxis& axis, std::size_t) {
  require_replicated(axis, 2, "weight");
  return whole_rows(axis, nonlinear(sum_of(axis.operand(0), axis.operand(1))));
}
// (grad, x, weight, inverse_rms, other): `other` is added to the gradient of x.
Placement rms_norm_backward(const OnAxis& axis, std::size_t i) {
  require_replicated(axis, 2, "weight");
  const Placement x = product_of(axis.operand(0), nonlinear(axis.operand(1)));
  if (i == 0) return axis.has(4) ? sum_of(x, axis.operand(4)) : x;
  return x.kind == Placement::Kind::sharded ? kPartialSum : x;
}

// The second launch of a backward adds the parts of the weight gradient.
constexpr Op kNormOps[] = {
    {.name = "rondo.add_rms_norm.default", .signature = {3, 4, 3}, .shard = add_rms_norm},
    {.name = "rondo.add_rms_norm_backward.default",
     .signature = {5, 5, 2},
     .shard = rms_norm_backward,
     .launches = 2},
    {.name = "rondo.rms_norm.default", .signature = {2, 3, 2}, .shard = rms_norm},
    {.name = "rondo.rms_norm_backward.default",
     .signature = {4, 4, 2},
     .shard = rms_norm_backward,
     .launches = 2},
};

}  // namespace

std::span<const Op> norm_ops() { return kNormOps; }

}  // namespace rondo::ir

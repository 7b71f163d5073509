// Ops that work element by element, constants, and reductions. Operands are broadcast from the last dimension
// on, so a dimension counts from there.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <variant>

#include "compiler/ir/op_facts.h"
#include "compiler/verify/sharding_rules.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

// Argument i, with the dimensions of result 0.
Placement aligned(const OnAxis& at, std::size_t i) {
  Placement p = at.operand(i);
  if (p.kind == Kind::sharded)
    p.dim = static_cast<std::int8_t>(p.dim + static_cast<int>(at.result(0).sizes.size()) -
                                     static_cast<int>(at.type(i).sizes.size()));
  return p;
}

Placement linear(const OnAxis& at, std::size_t) { return at.operand(0); }

Placement add(const OnAxis& at, std::size_t) {
  const Placement a = aligned(at, 0), b = aligned(at, 1);
  if (a.kind == Kind::partial_max && b.kind == Kind::partial_max)
    throw Refused{"it adds two maxima that are still to be taken over ranks"};
  return sum_of(a, b);
}
Placement multiply(const OnAxis& at, std::size_t) { return product_of(aligned(at, 0), aligned(at, 1)); }
Placement divide(const OnAxis& at, std::size_t) {
  return product_of(aligned(at, 0), nonlinear(aligned(at, 1)));
}

Placement nonlinear_in_all(const OnAxis& at, std::size_t) {
  Placement made;
  for (std::size_t i = 0; i < at.node.args.size(); ++i)
    if (at.has(i)) made = sum_of(made, nonlinear(aligned(at, i)));
  return made;
}

// It grows with its operand, so the largest stays the largest.
Placement exp(const OnAxis& at, std::size_t i) {
  return at.operand(0).kind == Kind::partial_max ? kPartialMax : nonlinear_in_all(at, i);
}

// Of a gradient and what the forward saved.
Placement linear_in_the_first(const OnAxis& at, std::size_t) {
  Placement others;
  for (std::size_t i = 1; i < at.node.args.size(); ++i)
    if (at.has(i)) others = sum_of(others, nonlinear(aligned(at, i)));
  return product_of(aligned(at, 0), others);
}

Placement choose(const OnAxis& at, std::size_t) {  // (condition, x, y)
  const Placement condition = nonlinear(aligned(at, 0));
  return product_of(sum_of(aligned(at, 1), aligned(at, 2)), condition);
}

bool is_zero(const OnAxis& at, std::size_t i) {
  if (i >= at.node.args.size()) return false;
  const Argument& arg = at.node.args[i];
  if (const auto* whole = std::get_if<std::int64_t>(&arg)) return *whole == 0;
  if (const auto* real = std::get_if<double>(&arg)) return *real == 0;
  return false;
}

// (x, mask, number). Where a rank clears what is not of its part, all of them together have each element
// once.
Placement masked_fill(const OnAxis& at, std::size_t) {
  const Placement x = aligned(at, 0), mask = nonlinear(aligned(at, 1));
  if (!is_zero(at, 2)) return sum_of(nonlinear(x), mask);
  if (mask.kind == Kind::local && (x.kind == Kind::local || x == kReplicated)) return kPartialSum;
  return product_of(x, mask);
}

Placement zeros(const OnAxis&, std::size_t) { return kZero; }
Placement constant(const OnAxis&, std::size_t) { return kReplicated; }
// As long as something that is cut is cut, too.
Placement constant_like(const OnAxis& at, std::size_t) {
  Placement p = at.operand(0);
  p.repeated = false;
  return is_partial(p) || p.kind == Kind::zero ? kReplicated : p;
}
Placement scalar(const OnAxis& at, std::size_t) { return is_zero(at, 0) ? kZero : kReplicated; }
Placement fill(const OnAxis& at, std::size_t i) { return is_zero(at, 1) ? kZero : constant_like(at, i); }

// A summand that is made a whole number is what a rank has counted, and what it has counted is a summand.
Placement convert(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  const DType from = at.type(0).dtype, to = at.result(0).dtype;
  if (is_partial(p) && is_integer(to) && !is_integer(from)) return kLocal;
  return p.kind == Kind::local && is_integer(from) && from != DType::b8 && !is_integer(to) ? kPartialSum : p;
}

// --- reductions: (x, dims, keepdim, ...) ---

// Whether dimension `dim` of x is among those of argument 1; all are where there are none.
bool reduces(const OnAxis& at, int dim) {
  const std::size_t dims = at.type(0).sizes.size();
  const auto* list =
      at.node.args.size() > 1 ? std::get_if<std::vector<std::int64_t>>(&at.node.args[1]) : nullptr;
  if (list == nullptr || list->empty()) return true;
  return std::any_of(list->begin(), list->end(), [&](std::int64_t d) { return dim_of(d, dims) == dim; });
}

// Where a dimension that stays is in the result.
Placement kept_dim(const OnAxis& at, Placement p) {
  if (p.kind != Kind::sharded || at.result(0).sizes.size() == at.type(0).sizes.size()) return p;
  int gone = 0;
  for (int d = 0; d < p.dim; ++d) gone += reduces(at, d);
  p.dim = static_cast<std::int8_t>(p.dim - gone);
  return p;
}

// Whether it reduces over a dimension of which each rank has a part.
bool over_cut(const OnAxis& at, const Placement& p) {
  return p.kind == Kind::inner || (p.kind == Kind::sharded && reduces(at, p.dim));
}

Placement reduce(const OnAxis& at, const Placement& p, const Placement& partial) {
  if (!over_cut(at, p)) return kept_dim(at, p);
  Placement made = partial;
  made.repeated = p.repeated;
  return made;
}

Placement sum(const OnAxis& at, std::size_t) { return reduce(at, at.operand(0), kPartialSum); }
Placement largest(const OnAxis& at, std::size_t) { return reduce(at, nonlinear(at.operand(0)), kPartialMax); }
Placement mean(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (over_cut(at, p)) throw Refused{"it takes the mean over a dimension of which each rank has a part"};
  return kept_dim(at, p);
}

// Ops along a dimension, which stays: argument `Dim` says which.
template <std::size_t Dim>
Placement whole_along(const OnAxis& at, const Placement& p) {
  if (p.kind == Kind::inner ||
      (p.kind == Kind::sharded && p.dim == dim_of(at.integer(Dim), at.type(0).sizes.size()))) {
    if (is_integer(at.result(0).dtype)) return kLocal;
    throw Refused{"it needs the whole of a dimension of which each rank has a part"};
  }
  return p;
}
template <std::size_t Dim>
Placement nonlinear_along(const OnAxis& at, std::size_t) {
  return whole_along<Dim>(at, nonlinear(at.operand(0)));
}
// Rows that a rank has sorted among themselves are cut as before: nothing is said of their order.
Placement sort(const OnAxis& at, std::size_t) { return nonlinear(at.operand(0)); }
Placement sum_along(const OnAxis& at, std::size_t) { return whole_along<1>(at, at.operand(0)); }
Placement softmax_backward(const OnAxis& at, std::size_t) {
  return whole_along<2>(at, product_of(at.operand(0), nonlinear(at.operand(1))));
}

constexpr NamedRule kArithmeticRules[] = {
    {"aten._to_copy.default", convert},
    {"aten.alias.default", linear},
    {"aten.clone.default", linear},
    {"aten.detach.default", linear},
    {"aten.div.Scalar", linear, OpKind::division},
    {"aten.mul.Scalar", linear},
    {"aten.neg.default", linear},
    {kOffload, linear},
    {kReload, linear},
    {kWaitTransfer, linear},

    {"aten.add.Tensor", add},
    {"aten.sub.Tensor", add},
    {"aten.mul.Tensor", multiply},
    {"aten.div.Tensor", divide, OpKind::division},
    {"aten.where.self", choose},
    {"aten.masked_fill.Scalar", masked_fill},

    {"aten.add.Scalar", nonlinear_in_all},
    {"aten.bitwise_and.Tensor", nonlinear_in_all},
    {"aten.bitwise_not.default", nonlinear_in_all},
    {"aten.bitwise_or.Tensor", nonlinear_in_all},
    {"aten.clamp.default", nonlinear_in_all},
    {"aten.clamp_max.default", nonlinear_in_all},
    {"aten.clamp_min.default", nonlinear_in_all},
    {"aten.eq.Scalar", nonlinear_in_all},
    {"aten.eq.Tensor", nonlinear_in_all},
    {"aten.exp.default", exp},
    {"aten.ge.Scalar", nonlinear_in_all},
    {"aten.ge.Tensor", nonlinear_in_all},
    {"aten.gt.Scalar", nonlinear_in_all},
    {"aten.gt.Tensor", nonlinear_in_all},
    {"aten.le.Scalar", nonlinear_in_all},
    {"aten.log.default", nonlinear_in_all},
    {"aten.logical_and.default", nonlinear_in_all},
    {"aten.logical_not.default", nonlinear_in_all},
    {"aten.logical_or.default", nonlinear_in_all},
    {"aten.lt.Scalar", nonlinear_in_all},
    {"aten.lt.Tensor", nonlinear_in_all},
    {"aten.maximum.default", nonlinear_in_all},
    {"aten.minimum.default", nonlinear_in_all},
    {"aten.ne.Scalar", nonlinear_in_all},
    {"aten.pow.Tensor_Scalar", nonlinear_in_all},
    {"aten.reciprocal.default", nonlinear_in_all},
    {"aten.rsqrt.default", nonlinear_in_all},
    {"aten.rsub.Scalar", nonlinear_in_all},
    {"aten.sigmoid.default", nonlinear_in_all},
    {"aten.sign.default", nonlinear_in_all},
    {"aten.silu.default", nonlinear_in_all},
    {"aten.sqrt.default", nonlinear_in_all},
    {"aten.sub.Scalar", nonlinear_in_all},
    {"rondo.swiglu.default", nonlinear_in_all},

    {"aten.sigmoid_backward.default", linear_in_the_first},
    {"aten.silu_backward.default", linear_in_the_first},
    {"rondo.rope.default", linear_in_the_first},
    {"rondo.swiglu_backward.default", linear_in_the_first},
    {"rondo.swiglu_backward_joined.default", linear_in_the_first},

    {"aten.arange.default", constant},
    {"aten.arange.start", constant},
    {"aten.arange.start_step", constant},
    {"aten.empty.memory_format", constant},
    {"aten.empty_like.default", constant_like},
    {"aten.fill.Scalar", fill},
    {"aten.full.default", constant},
    {"aten.full_like.default", fill},
    {"aten.new_ones.default", constant},
    {"aten.new_zeros.default", zeros},
    {"aten.ones.default", constant},
    {"aten.ones_like.default", constant_like},
    {"aten.scalar_tensor.default", scalar},
    {"aten.zero.default", zeros},
    {"aten.zeros.default", zeros},
    {"aten.zeros_like.default", zeros},

    {"rondo.adamw.default", nullptr, OpKind::optimizer},
    {"rondo.sums_of_squares.default", nullptr, OpKind::squares},
    {"aten.amax.default", largest},
    {"aten.mean.dim", mean},
    {"aten.sum.default", sum},
    {"aten.sum.dim_IntList", sum},

    {"aten._softmax.default", nonlinear_along<1>},
    {"aten._softmax_backward_data.default", softmax_backward},
    {"aten.cumsum.default", sum_along},
    {"aten.sort.stable", sort},
    {"aten.topk.default", nonlinear_along<2>},
};

}  // namespace

std::span<const NamedRule> arithmetic_rules() { return kArithmeticRules; }

}  // namespace rondo::ir

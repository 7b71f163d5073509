// Elementwise ops, constants, random numbers, and reductions. Only in-place forms with equal bits
// are listed: on the CPU mul_.Scalar differs from mul.Scalar in bf16.
#include <algorithm>
#include <variant>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

// Returns the placement of argument i in the dimensions of result 0. Operands are broadcast from
// the last dimension on.
Placement aligned(const OnAxis& axis, std::size_t i) {
  Placement p = axis.operand(i);
  if (p.kind == Kind::sharded)
    p.dim = static_cast<std::int8_t>(p.dim + static_cast<int>(axis.result(0).sizes.size()) -
                                     static_cast<int>(axis.type(i).sizes.size()));
  return p;
}

Placement add(const OnAxis& axis, std::size_t) {
  const Placement a = aligned(axis, 0), b = aligned(axis, 1);
  if (a.kind == Kind::partial_max && b.kind == Kind::partial_max) throw Refused{"it adds two partial maxima"};
  return sum_of(a, b);
}
Placement multiply(const OnAxis& axis, std::size_t) { return product_of(aligned(axis, 0), aligned(axis, 1)); }
Placement divide(const OnAxis& axis, std::size_t) {
  return product_of(aligned(axis, 0), nonlinear(aligned(axis, 1)));
}

Placement pointwise(const OnAxis& axis, std::size_t) {
  Placement result;
  for (std::size_t i = 0; i < axis.node.args.size(); ++i)
    if (axis.has(i)) result = sum_of(result, nonlinear(aligned(axis, i)));
  return result;
}

// exp is monotonic, so it maps the maximum of the operands to the maximum of the results.
Placement exp(const OnAxis& axis, std::size_t i) {
  return axis.operand(0).kind == Kind::partial_max ? kPartialMax : pointwise(axis, i);
}

// (gradient, values that the forward saved, ...)
Placement gradient_of_pointwise(const OnAxis& axis, std::size_t) {
  Placement others;
  for (std::size_t i = 1; i < axis.node.args.size(); ++i)
    if (axis.has(i)) others = sum_of(others, nonlinear(aligned(axis, i)));
  return product_of(aligned(axis, 0), others);
}

// rondo.swiglu_rows (gate, up, count), rondo.swiglu_rows_backward (grad, gate, up, count),
// rondo.clamped_swiglu (gate_up, count, ...), rondo.clamped_swiglu_backward (grad, gate_up, count,
// ...). The count is of the rank's own rows, however these are sharded.
Placement gated_rows(const OnAxis& axis, std::size_t) {
  return sum_of(nonlinear(axis.operand(0)), nonlinear(axis.operand(1)));
}
Placement gradient_of_gated_rows(const OnAxis& axis, std::size_t) {
  return product_of(axis.operand(0), sum_of(nonlinear(axis.operand(1)), nonlinear(axis.operand(2))));
}

Placement clamped_rows(const OnAxis& axis, std::size_t) { return nonlinear(axis.operand(0)); }
Placement gradient_of_clamped_rows(const OnAxis& axis, std::size_t) {
  return product_of(axis.operand(0), nonlinear(axis.operand(1)));
}

Placement choose(const OnAxis& axis, std::size_t) {  // (condition, x, y)
  const Placement condition = nonlinear(aligned(axis, 0));
  return product_of(sum_of(aligned(axis, 1), aligned(axis, 2)), condition);
}

// (x, mask, number). If each rank clears the elements outside of its part, the result is a partial
// sum: each element is set on one rank.
Placement masked_fill(const OnAxis& axis, std::size_t) {
  const Placement x = aligned(axis, 0), mask = nonlinear(aligned(axis, 1));
  if (!axis.is_zero(2)) return sum_of(nonlinear(x), mask);
  if (mask.kind == Kind::local && (x.kind == Kind::local || x == kReplicated)) return kPartialSum;
  return product_of(x, mask);
}

// A partial sum that is converted to an integer is the rank's own count. The rank's own count in
// floating point is a partial sum.
Placement convert(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  const DType from = axis.type(0).dtype, to = axis.result(0).dtype;
  if (is_partial(p) && !is_float(to) && is_float(from)) return kLocal;
  return p.kind == Kind::local && !is_float(from) && from != DType::b8 && is_float(to) ? kPartialSum : p;
}

Placement zeros(const OnAxis&, std::size_t) { return kZero; }
Placement constant(const OnAxis&, std::size_t) { return kReplicated; }
// The result has the sizes of its operand, and so its sharding.
Placement constant_like(const OnAxis& axis, std::size_t) {
  Placement p = axis.operand(0);
  p.repeated = false;
  return is_partial(p) || p.kind == Kind::zero ? kReplicated : p;
}
Placement scalar(const OnAxis& axis, std::size_t) { return axis.is_zero(0) ? kZero : kReplicated; }
Placement fill(const OnAxis& axis, std::size_t i) { return axis.is_zero(1) ? kZero : constant_like(axis, i); }

// Returns true if a reduction (x, dims, ...) reduces dimension `dim` of x. Empty `dims` reduce all.
bool reduces(const OnAxis& axis, int dim) {
  const std::size_t dims = axis.type(0).sizes.size();
  const auto* list = argument<std::vector<std::int64_t>>(axis.node, 1);
  if (list == nullptr || list->empty()) return true;
  return std::any_of(list->begin(), list->end(), [&](std::int64_t d) { return dim_of(d, dims) == dim; });
}

// Returns the placement in the dimensions of the result.
Placement kept_dim(const OnAxis& axis, Placement p) {
  if (p.kind != Kind::sharded || axis.result(0).sizes.size() == axis.type(0).sizes.size()) return p;
  int reduced = 0;
  for (int d = 0; d < p.dim; ++d) reduced += reduces(axis, d);
  p.dim = static_cast<std::int8_t>(p.dim - reduced);
  return p;
}

// Returns true if the node reduces a sharded dimension.
bool reduces_sharded(const OnAxis& axis, const Placement& p) {
  return p.kind == Kind::inner || (p.kind == Kind::sharded && reduces(axis, p.dim));
}

Placement reduce(const OnAxis& axis, const Placement& p, const Placement& partial) {
  if (!reduces_sharded(axis, p)) return kept_dim(axis, p);
  return {partial.kind, 0, p.repeated};
}

Placement sum(const OnAxis& axis, std::size_t) { return reduce(axis, axis.operand(0), kPartialSum); }
Placement largest(const OnAxis& axis, std::size_t) {
  return reduce(axis, nonlinear(axis.operand(0)), kPartialMax);
}
Placement mean(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (reduces_sharded(axis, p)) throw Refused{"it takes the mean over a sharded dimension"};
  return kept_dim(axis, p);
}

// Ops along one dimension, argument `Dim`, which remains.
template <std::size_t Dim>
Placement whole_along(const OnAxis& axis, const Placement& p) {
  if (p.kind == Kind::inner ||
      (p.kind == Kind::sharded && p.dim == dim_of(axis.integer(Dim), axis.type(0).sizes.size()))) {
    if (!is_float(axis.result(0).dtype)) return kLocal;
    throw Refused{"it needs the whole of a sharded dimension"};
  }
  return p;
}
template <std::size_t Dim>
Placement nonlinear_along(const OnAxis& axis, std::size_t) {
  return whole_along<Dim>(axis, nonlinear(axis.operand(0)));
}
// Sorting a rank's rows keeps their sharding, since the type does not describe their order.
Placement sort(const OnAxis& axis, std::size_t) { return nonlinear(axis.operand(0)); }
Placement sum_along(const OnAxis& axis, std::size_t) { return whole_along<1>(axis, axis.operand(0)); }
Placement softmax_backward(const OnAxis& axis, std::size_t) {
  return whole_along<2>(axis, product_of(axis.operand(0), nonlinear(axis.operand(1))));
}

constexpr Op kArithmeticOps[] = {
    {.name = kToCopy, .shard = convert, .keeps_parts = true},
    {.name = "aten.clone.default", .shard = as_operand, .keeps_parts = true},
    {.name = "aten.div.Scalar", .shard = as_operand, .kind = OpKind::division, .keeps_parts = true},
    {.name = "aten.mul.Scalar", .shard = as_operand, .kind = OpKind::scaling, .keeps_parts = true},
    {.name = "aten.neg.default",
     .overwritten = 1,
     .shard = as_operand,
     .kind = OpKind::scaling,
     .keeps_owner = true},

    {.name = "aten.add.Tensor", .overwritten = 1, .shard = add, .kind = OpKind::sum},
    {.name = "rondo.add_widened.default",
     .signature = {2, 2, 1},
     .overwritten = 1,
     .shard = add,
     .kind = OpKind::sum},
    {.name = "aten.div.Tensor",
     .overwritten = 1,
     .shard = divide,
     .kind = OpKind::division,
     .keeps_parts = true},
    {.name = "aten.masked_fill.Scalar", .shard = masked_fill},
    {.name = "aten.mul.Tensor", .overwritten = 1, .shard = multiply},
    {.name = "aten.sub.Tensor", .overwritten = 1, .shard = add},
    {.name = "aten.where.self", .shard = choose},

    {.name = "aten.add.Scalar", .shard = pointwise},
    {.name = "aten.bitwise_and.Tensor", .shard = pointwise},
    {.name = "aten.bitwise_not.default", .shard = pointwise},
    {.name = "aten.bitwise_or.Tensor", .shard = pointwise},
    {.name = "aten.clamp.default", .shard = pointwise},
    {.name = "aten.clamp_max.default", .shard = pointwise},
    {.name = "aten.clamp_min.default", .shard = pointwise},
    {.name = "aten.eq.Scalar", .shard = pointwise},
    {.name = "aten.eq.Tensor", .shard = pointwise},
    {.name = "aten.exp.default", .overwritten = 1, .shard = exp},
    {.name = "aten.ge.Scalar", .shard = pointwise},
    {.name = "aten.ge.Tensor", .shard = pointwise},
    {.name = "aten.gt.Scalar", .shard = pointwise},
    {.name = "aten.gt.Tensor", .shard = pointwise},
    {.name = "aten.le.Scalar", .shard = pointwise},
    {.name = "aten.log.default", .shard = pointwise},
    {.name = "aten.logical_and.default", .shard = pointwise},
    {.name = "aten.logical_not.default", .shard = pointwise},
    {.name = "aten.logical_or.default", .shard = pointwise},
    {.name = "aten.lt.Scalar", .shard = pointwise},
    {.name = "aten.lt.Tensor", .shard = pointwise},
    {.name = "aten.maximum.default", .shard = pointwise},
    {.name = "aten.minimum.default", .shard = pointwise},
    {.name = "aten.ne.Scalar", .shard = pointwise},
    {.name = "aten.pow.Tensor_Scalar", .shard = pointwise},
    {.name = "aten.reciprocal.default", .overwritten = 1, .shard = pointwise},
    {.name = "aten.rsqrt.default", .overwritten = 1, .shard = pointwise},
    {.name = "aten.rsub.Scalar", .shard = pointwise},
    {.name = "aten.sigmoid.default", .overwritten = 1, .shard = pointwise},
    {.name = "aten.sign.default", .shard = pointwise},
    {.name = "aten.silu.default", .overwritten = 1, .shard = pointwise},
    {.name = "aten.sqrt.default", .overwritten = 1, .shard = pointwise},
    {.name = "aten.sub.Scalar", .shard = pointwise},
    {.name = "rondo.clamped_swiglu.default",
     .signature = {2, 4, 1},
     .of_experts = true,
     .shard = clamped_rows},
    {.name = "rondo.swiglu.default", .reuses = 0, .shard = pointwise},
    {.name = "rondo.swiglu_rows.default",
     .signature = {3, 3, 1},
     .reuses = 0,
     .of_experts = true,
     .shard = gated_rows},

    {.name = "aten.sigmoid_backward.default", .shard = gradient_of_pointwise},
    {.name = "aten.silu_backward.default", .reuses = 0, .shard = gradient_of_pointwise},
    {.name = "rondo.rope.default", .reuses = 0, .shard = gradient_of_pointwise},
    {.name = "rondo.clamped_swiglu_backward.default",
     .signature = {3, 5, 1},
     .reuses = 1,
     .of_experts = true,
     .shard = gradient_of_clamped_rows},
    {.name = "rondo.swiglu_backward.default", .reuses = 0, .shard = gradient_of_pointwise},
    {.name = "rondo.swiglu_backward_joined.default", .shard = gradient_of_pointwise},
    {.name = "rondo.swiglu_rows_backward.default",
     .signature = {4, 4, 2},
     .reuses = 0,
     .of_experts = true,
     .shard = gradient_of_gated_rows},

    {.name = "aten.arange.default", .shard = constant},
    {.name = "aten.arange.start", .shard = constant},
    {.name = "aten.arange.start_step", .shard = constant},
    {.name = "aten.empty.memory_format", .shard = constant, .allocates = true},
    {.name = "aten.empty_like.default", .shard = constant_like, .allocates = true},
    {.name = "aten.empty_permuted.default", .allocates = true},
    {.name = "aten.empty_strided.default", .allocates = true},
    {.name = "aten.fill.Scalar", .shard = fill},
    {.name = "aten.full.default", .shard = constant},
    {.name = "aten.full_like.default", .shard = fill},
    {.name = "aten.new_empty.default", .allocates = true},
    {.name = "aten.new_empty_strided.default", .allocates = true},
    {.name = "aten.new_ones.default", .shard = constant},
    {.name = "aten.new_zeros.default", .shard = zeros},
    {.name = "aten.ones.default", .shard = constant},
    {.name = "aten.ones_like.default", .shard = constant_like},
    {.name = "aten.scalar_tensor.default", .shard = scalar},
    {.name = "aten.zero.default", .overwritten = 1, .shard = zeros},
    {.name = "aten.zeros.default", .shard = zeros},
    {.name = "aten.zeros_like.default", .shard = zeros},

    {.name = "aten.bernoulli.default", .effect = Effect::random},
    {.name = "aten.bernoulli.p", .effect = Effect::random},
    {.name = "aten.exponential.default", .effect = Effect::random},
    {.name = "aten.multinomial.default", .effect = Effect::random},
    {.name = "aten.native_dropout.default", .effect = Effect::random},
    {.name = "aten.normal_functional.default", .effect = Effect::random},
    {.name = "aten.rand.default", .effect = Effect::random},
    {.name = "aten.rand_like.default", .effect = Effect::random},
    {.name = "aten.randint.default", .effect = Effect::random},
    {.name = "aten.randint.low", .effect = Effect::random},
    {.name = "aten.randint_like.default", .effect = Effect::random},
    {.name = "aten.randn.default", .effect = Effect::random},
    {.name = "aten.randn_like.default", .effect = Effect::random},
    {.name = "aten.randperm.default", .effect = Effect::random},
    {.name = "aten.uniform.default", .effect = Effect::random},

    {.name = "aten.amax.default", .slow_to_repeat = true, .shard = largest},
    {.name = "aten.max.default", .slow_to_repeat = true},
    {.name = "aten.max.dim", .slow_to_repeat = true},
    {.name = "aten.mean.dim", .shard = mean},
    {.name = "aten.sum.default", .shard = sum},
    {.name = "aten.sum.dim_IntList", .shard = sum},

    {.name = "aten._softmax.default", .shard = nonlinear_along<1>},
    {.name = "aten._softmax_backward_data.default", .shard = softmax_backward},
    {.name = "aten.argsort.stable", .slow_to_repeat = true},
    {.name = "aten.cumsum.default", .shard = sum_along},
    {.name = "aten.sort.default", .slow_to_repeat = true},
    {.name = "aten.sort.stable", .slow_to_repeat = true, .shard = sort},
    {.name = "aten.topk.default", .slow_to_repeat = true, .shard = nonlinear_along<2>},

    {.name = "aten._local_scalar_dense.default", .effect = Effect::host_sync},
    {.name = "aten.equal.default", .effect = Effect::host_sync},
};

}  // namespace

std::span<const Op> arithmetic_ops() { return kArithmeticOps; }

bool converts_on_device(const Node& node) {
  // (self, dtype, layout, device, pin_memory, non_blocking, memory_format)
  if (node.op != kToCopy || node.args.size() != 7 || !std::holds_alternative<Use>(node.args[0]) ||
      node.results.size() != 1)
    return false;
  const bool moves =
      !std::holds_alternative<None>(node.args[3]) && node.args[3] != Argument(Symbol{"device"});
  const bool pins = !std::holds_alternative<None>(node.args[4]) && node.args[4] != Argument(false);
  return !moves && !pins;
}

}  // namespace rondo::ir

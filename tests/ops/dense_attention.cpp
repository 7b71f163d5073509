#include "tests/ops/dense_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;

// Returns int64 [B, N] of positions in the row.
Tensor positions_or_order(const std::optional<Tensor>& positions, std::int64_t batch, std::int64_t count) {
  return positions ? positions->to(at::kLong) : at::arange(count, at::kLong).expand({batch, count});
}

// Whether a query sees a key, [B, T, S].
Tensor sees(const AttentionOperands& operands) {
  const std::int64_t batch = operands.k.size(0), keys = operands.k.size(2);
  const Tensor query = positions_or_order(operands.query_positions, batch, operands.q.size(2)).unsqueeze(2);
  const Tensor key = positions_or_order(operands.key_positions, batch, keys).unsqueeze(1);
  const Tensor row = at::arange(batch, at::kLong).view({batch, 1, 1}) * keys;
  const AttentionMask& mask = operands.mask;
  Tensor query_document = at::zeros_like(query), key_document = at::zeros_like(key), begin = query_document;
  if (operands.document_borders) {
    const Tensor borders = operands.document_borders->to(at::kLong);
    const auto document = [&](const Tensor& position) {
      return at::searchsorted(borders, position + row, false, true) - 1;
    };
    query_document = document(query), key_document = document(key);
    begin = borders.take(query_document) - row;
  }
  Tensor result = query_document == key_document;
  if (mask.left != AttentionMask::kUnlimited) result = result & (key >= query - mask.left);
  if (mask.right != AttentionMask::kUnlimited) result = result & (key <= query + mask.right);
  if (mask.chunk > 0)
    result = result & ((query - begin).floor_divide(mask.chunk) == (key - begin).floor_divide(mask.chunk));
  return result;
}

}  // namespace

DenseAttention dense_attention(const AttentionOperands& operands, const Tensor& grad) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor q = wide(operands.q), k = wide(operands.k), v = wide(operands.v);
  const std::int64_t group_heads = q.size(1) / k.size(1);
  const Tensor hidden = sees(operands).logical_not().unsqueeze(1);
  const auto of_heads = [&](const Tensor& x) { return x.repeat_interleave(group_heads, 1); };

  const Tensor scores =
      (q.matmul(of_heads(k).transpose(2, 3)) * operands.scale).masked_fill(hidden, -kInfinity);
  Tensor maximum = at::amax(scores.detach(), {3}, true), sinks;
  if (operands.sinks) {
    sinks = wide(*operands.sinks);
    maximum = at::maximum(maximum, sinks.detach().view({1, -1, 1, 1}));
  }
  maximum = maximum.masked_fill(maximum == -kInfinity, 0);
  const Tensor weights = at::exp(scores - maximum);
  Tensor sum = at::sum(weights, at::IntArrayRef{3}, true);
  if (sinks.defined()) sum = sum + at::exp(sinks.view({1, -1, 1, 1}) - maximum);
  const Tensor empty = sum == 0, divisor = at::where(empty, at::ones_like(sum), sum);
  const Tensor output = weights.matmul(of_heads(v)) / divisor;
  output.backward(grad.to(at::kDouble));
  return {output.detach(), (maximum + at::log(divisor)).masked_fill(empty, kInfinity).squeeze(3).detach(),
          q.grad(),        k.grad(),
          v.grad(),        sinks.defined() ? sinks.grad() : Tensor()};
}

}  // namespace rondo

// ATen's flash attention, a document at a time, where a mask is causal; all scores in memory where it is not.
#include "ops/attention/attention_cpu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;
using Borders = std::optional<Tensor>;

// A run of tokens of one batch row that may see each other.
struct Run {
  std::int64_t row, begin, length;
};
std::vector<Run> document_spans(const Tensor& borders_N, std::int64_t row_length) {
  const Tensor borders = borders_N.contiguous();
  const auto* at = borders.const_data_ptr<std::int32_t>();
  std::vector<Run> spans;
  for (std::int64_t i = 0; i + 1 < borders.numel() && at[i + 1] > at[i]; ++i)
    spans.push_back({at[i] / row_length, at[i] % row_length, at[i + 1] - at[i]});
  return spans;
}
Tensor cut(const Tensor& x_BHTD, const Run& span) {
  return x_BHTD.narrow(0, span.row, 1).narrow(2, span.begin, span.length);
}

std::tuple<Tensor, Tensor> forward_equal(const Tensor& q, const Tensor& k_grouped, const Tensor& v_grouped,
                                         const Borders& borders, double scale) {
  const Tensor k = repeat_groups(k_grouped, q.size(1));
  const Tensor v = repeat_groups(v_grouped, q.size(1));
  if (!borders) return at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true, {}, scale);
  Tensor output = empty_heads(q), logsumexp = empty_logsumexp(q);
  for (const Run& span : document_spans(*borders, q.size(2))) {
    auto [part, part_lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        cut(q, span), cut(k, span), cut(v, span), 0.0, true, {}, scale);
    cut(output, span).copy_(part);
    logsumexp.narrow(0, span.row, 1).narrow(2, span.begin, span.length).copy_(part_lse);
  }
  return {output, logsumexp};
}

std::tuple<Tensor, Tensor> forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Borders& borders, double scale) {
  const std::int64_t width = std::max(q.size(3), v.size(3));
  auto [output, logsumexp] = forward_equal(widen(q, width), widen(k, width), widen(v, width), borders, scale);
  return {narrow_to(output, v.size(3)), logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> backward_equal(const Tensor& grad, const Tensor& q,
                                                  const Tensor& k_grouped, const Tensor& v_grouped,
                                                  const Tensor& output, const Tensor& logsumexp,
                                                  const Borders& borders, double scale) {
  const Tensor k = repeat_groups(k_grouped, q.size(1));
  const Tensor v = repeat_groups(v_grouped, q.size(1));
  Tensor grad_q, grad_k, grad_v;
  if (!borders) {
    std::tie(grad_q, grad_k, grad_v) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, output, logsumexp, 0.0, true, {}, scale);
  } else {
    grad_q = empty_heads(q), grad_k = empty_heads(k), grad_v = empty_heads(v);
    for (const Run& span : document_spans(*borders, q.size(2))) {
      const Tensor lse = logsumexp.narrow(0, span.row, 1).narrow(2, span.begin, span.length);
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          cut(grad, span), cut(q, span), cut(k, span), cut(v, span), cut(output, span), lse, 0.0, true, {},
          scale);
      cut(grad_q, span).copy_(dq);
      cut(grad_k, span).copy_(dk);
      cut(grad_v, span).copy_(dv);
    }
  }
  return {grad_q, sum_groups(grad_k, k_grouped), sum_groups(grad_v, v_grouped)};
}

std::tuple<Tensor, Tensor, Tensor> backward_cpu(const Tensor& grad, const Tensor& q, const Tensor& k,
                                                const Tensor& v, const Tensor& output,
                                                const Tensor& logsumexp, const Borders& borders,
                                                double scale) {
  const std::int64_t width = std::max(q.size(3), v.size(3));
  auto [grad_q, grad_k, grad_v] =
      backward_equal(widen(grad, width), widen(q, width), widen(k, width), widen(v, width),
                     widen(output, width), logsumexp, borders, scale);
  return {narrow_to(grad_q, q.size(3)), narrow_to(grad_k, k.size(3)), narrow_to(grad_v, v.size(3))};
}

bool is_plain(const AttentionOperands& in) {
  return in.mask == AttentionMask{} && !in.sinks && !in.query_positions && !in.key_positions;
}

// [B, 1, T, S]: whether a query must not see a key.
Tensor hidden(const AttentionOperands& in) {
  const std::int64_t rows = in.q.size(0), queries = in.q.size(2), keys = in.k.size(2);
  const std::int64_t length =
      in.document_borders ? in.document_borders->view({-1})[-1].item<std::int64_t>() / rows : 0;
  std::vector<Span> documents(static_cast<std::size_t>(rows * length));
  if (in.document_borders)
    for (const Run& run : document_spans(*in.document_borders, length))
      for (std::int64_t i = 0; i < run.length; ++i)
        documents[static_cast<std::size_t>(run.row * length + run.begin + i)] = {run.begin,
                                                                                 run.begin + run.length};
  const auto position = [](const Borders& positions, std::int64_t row, std::int64_t i) -> std::int64_t {
    return positions ? positions->const_data_ptr<std::int32_t>()[row * positions->size(1) + i] : i;
  };
  Tensor result = at::ones({rows, 1, queries, keys}, at::kBool);
  auto* at = result.mutable_data_ptr<bool>();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t t = 0; t < queries; ++t) {
      const std::int64_t here = position(in.query_positions, row, t);
      const Span document = in.document_borders ? documents[static_cast<std::size_t>(row * length + here)]
                                                : Span{0, std::numeric_limits<std::int32_t>::max()};
      const Span sees = visible_keys(in.mask, here, document);
      for (std::int64_t s = 0; s < keys; ++s) {
        const std::int64_t there = position(in.key_positions, row, s);
        at[(row * queries + t) * keys + s] = there < sees.first || there >= sees.end;
      }
    }
  return result;
}

struct Dense {
  Tensor q, k, v, scores;  // in the type that is summed in
  explicit Dense(const AttentionOperands& in)
      : q(in.q.to(sum_dtype(in.q))),
        k(repeat_groups(in.k, in.q.size(1)).to(sum_dtype(in.q))),
        v(repeat_groups(in.v, in.q.size(1)).to(sum_dtype(in.q))),
        scores((at::matmul(q, k.transpose(-2, -1)) * in.scale)
                   .masked_fill_(hidden(in), -std::numeric_limits<double>::infinity())) {}
};

std::tuple<Tensor, Tensor> dense_forward(const AttentionOperands& in) {
  const Dense dense(in);
  Tensor with_sink = dense.scores;
  if (in.sinks)
    with_sink = at::cat({dense.scores, in.sinks->to(dense.scores.scalar_type())
                                           .view({1, -1, 1, 1})
                                           .expand({in.q.size(0), -1, in.q.size(2), 1})},
                        -1);
  Tensor logsumexp = empty_logsumexp(in.q);
  logsumexp.copy_(at::logsumexp(with_sink, {-1}));
  logsumexp.masked_fill_(logsumexp.isneginf(), std::numeric_limits<double>::infinity());
  Tensor output = empty_heads(in.q, in.v.size(3));
  output.copy_(at::matmul((dense.scores - logsumexp.unsqueeze(-1)).exp(), dense.v));
  return {output, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> dense_backward(const AttentionOperands& in, const Tensor& grad_of_output,
                                                  const Tensor& output, const Tensor& logsumexp) {
  const Dense dense(in);
  const Tensor grad = grad_of_output.to(dense.q.scalar_type());
  const Tensor weights = (dense.scores - logsumexp.unsqueeze(-1)).exp();
  const Tensor grad_scores =
      weights * (at::matmul(grad, dense.v.transpose(-2, -1)) - (grad * output).sum(-1, true)) * in.scale;
  const auto as = [](const Tensor& like, const Tensor& x) { return empty_heads(like).copy_(x); };
  return {as(in.q, at::matmul(grad_scores, dense.k)),
          as(in.k, sum_groups(at::matmul(grad_scores.transpose(-2, -1), dense.q), in.k)),
          as(in.v, sum_groups(at::matmul(weights.transpose(-2, -1), grad), in.v))};
}

}  // namespace

std::tuple<Tensor, Tensor> attention_forward_cpu(const AttentionOperands& in) {
  return is_plain(in) ? forward_cpu(in.q, in.k, in.v, in.document_borders, in.scale) : dense_forward(in);
}

std::tuple<Tensor, Tensor, Tensor> attention_backward_cpu(const AttentionOperands& in, const Tensor& grad,
                                                          const Tensor& output, const Tensor& logsumexp) {
  return is_plain(in) ? backward_cpu(grad, in.q, in.k, in.v, output, logsumexp, in.document_borders, in.scale)
                      : dense_backward(in, grad, output, logsumexp);
}

}  // namespace rondo

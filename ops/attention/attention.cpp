// How heads lie, the CPU's kernels (ATen's flash attention, a document at a time), shape rules and autograd.
#include "ops/attention/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "ops/kernel/op_handle.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;
using Borders = std::optional<Tensor>;
using Forward = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Borders&,
                                           double);
using Backward = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                                    const Tensor&, const Tensor&, const Tensor&,
                                                    const Borders&, double);

// A run of tokens of one batch row that may see each other.
struct Span {
  std::int64_t row, begin, length;
};
std::vector<Span> document_spans(const Tensor& borders_N, std::int64_t row_length) {
  const Tensor borders = borders_N.contiguous();
  const auto* at = borders.const_data_ptr<std::int32_t>();
  std::vector<Span> spans;
  for (std::int64_t i = 0; i + 1 < borders.numel() && at[i + 1] > at[i]; ++i)
    spans.push_back({at[i] / row_length, at[i] % row_length, at[i + 1] - at[i]});
  return spans;
}
Tensor cut(const Tensor& x_BHTD, const Span& span) {
  return x_BHTD.narrow(0, span.row, 1).narrow(2, span.begin, span.length);
}

std::tuple<Tensor, Tensor> forward_equal(const Tensor& q, const Tensor& k_grouped, const Tensor& v_grouped,
                                         const Borders& borders, double scale) {
  const Tensor k = repeat_groups(k_grouped, q.size(1));
  const Tensor v = repeat_groups(v_grouped, q.size(1));
  if (!borders) return at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true, {}, scale);
  Tensor output = empty_heads(q), logsumexp = empty_logsumexp(q);
  for (const Span& span : document_spans(*borders, q.size(2))) {
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
    for (const Span& span : document_spans(*borders, q.size(2))) {
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

std::tuple<Tensor, Tensor> forward_meta(const Tensor& q, const Tensor&, const Tensor& v, const Borders&,
                                        double) {
  return {empty_heads(q, v.size(3)), empty_logsumexp(q)};
}
std::tuple<Tensor, Tensor, Tensor> backward_meta(const Tensor&, const Tensor& q, const Tensor& k,
                                                 const Tensor& v, const Tensor&, const Tensor&,
                                                 const Borders&, double) {
  return {empty_heads(q), empty_heads(k), empty_heads(v)};
}

std::tuple<Tensor, Tensor> call_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Borders& borders, double scale) {
  static const auto handle = op_handle<Forward>("rondo::attention");
  return handle.call(q, k, v, borders, scale);
}

struct Attention : torch::autograd::Function<Attention> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& q,
                                                const Tensor& k, const Tensor& v, const Borders& borders,
                                                double scale) {
    at::AutoDispatchBelowAutograd below_autograd;
    auto [output, logsumexp] = call_forward(q, k, v, borders, scale);
    context->save_for_backward({q, k, v, output, logsumexp, borders.value_or(Tensor())});
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({logsumexp});
    context->set_materialize_grads(false);  // logsumexp has no gradient: no zeros in its place
    return {output, logsumexp};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto handle = op_handle<Backward>("rondo::attention_backward");
    const auto saved = context->get_saved_variables();
    const Borders borders = saved[5].defined() ? Borders(saved[5]) : std::nullopt;
    auto [q, k, v] = handle.call(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], borders,
                                 context->saved_data["scale"].toDouble());
    return {q, k, v, {}, {}};
  }
};

std::tuple<Tensor, Tensor> forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const Borders& borders, double scale) {
  const auto results = Attention::apply(q, k, v, borders, scale);
  return {results[0], results[1]};
}

}  // namespace

Tensor empty_heads(const Tensor& like_BHTD, std::int64_t width) {
  const auto s = like_BHTD.sizes();
  return at::empty({s[0], s[2], s[1], width}, like_BHTD.options()).transpose(1, 2);
}
Tensor empty_heads(const Tensor& like_BHTD) { return empty_heads(like_BHTD, like_BHTD.size(3)); }
Tensor empty_logsumexp(const Tensor& q_BHTD) {
  const auto s = q_BHTD.sizes();
  return at::empty({s[0], s[2], s[1]}, q_BHTD.options().dtype(sum_dtype(q_BHTD))).transpose(1, 2);
}

Tensor repeat_groups(const Tensor& x_BGTD, std::int64_t heads) {
  const auto s = x_BGTD.sizes();
  if (s[1] == heads) return x_BGTD;
  return x_BGTD.unsqueeze(2)
      .expand({s[0], s[1], heads / s[1], s[2], s[3]})
      .reshape({s[0], heads, s[2], s[3]});
}
Tensor sum_groups(const Tensor& grad_BHTD, const Tensor& like_BGTD) {
  const auto s = like_BGTD.sizes();
  if (grad_BHTD.size(1) == s[1]) return grad_BHTD;
  Tensor result = empty_heads(like_BGTD);
  const Tensor grouped = grad_BHTD.unflatten(1, {s[1], grad_BHTD.size(1) / s[1]});
  at::sum_out(result, grouped, at::IntArrayRef{2});
  return result;
}

Tensor widen(const Tensor& x_BHTD, std::int64_t width) {
  const std::int64_t own = x_BHTD.size(3);
  if (own == width) return x_BHTD;
  Tensor wide = empty_heads(x_BHTD, width);
  wide.narrow(3, 0, own).copy_(x_BHTD);
  wide.narrow(3, own, width - own).zero_();
  return wide;
}
Tensor narrow_to(const Tensor& x_BHTD, std::int64_t width) {
  if (x_BHTD.size(3) == width) return x_BHTD;
  return empty_heads(x_BHTD, width).copy_(x_BHTD.narrow(3, 0, width));
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Borders& borders,
                        double scale) {
  return std::get<0>(call_forward(q, k, v, borders, scale));
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("attention(Tensor q, Tensor k, Tensor v, Tensor? document_borders, float scale) -> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor output, Tensor logsumexp, "
      "Tensor? document_borders, float scale) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("attention", &forward_cpu);
  m.impl("attention_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("attention", &forward_meta);
  m.impl("attention_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(rondo, Autograd, m) { m.impl("attention", &forward_autograd); }

}  // namespace rondo

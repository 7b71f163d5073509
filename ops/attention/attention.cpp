// Layout of heads, shape rules, autograd, and the gradient of sinks.
#include "ops/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "ops/attention/attention_cpu.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using TwoTensors = std::tuple<Tensor, Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;
using ForwardOp = TwoTensors(const Tensor&, const Tensor&, const Tensor&, const MaybeTensor&, double,
                             std::int64_t, std::int64_t, std::int64_t, const MaybeTensor&, const MaybeTensor&,
                             const MaybeTensor&, std::int64_t);
using BackwardOp = ThreeTensors(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&, const MaybeTensor&, double, std::int64_t, std::int64_t,
                                std::int64_t, const MaybeTensor&, const MaybeTensor&, std::int64_t);
using SinksBackward = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&);

TwoTensors call_forward(const AttentionOperands& in) {
  static const auto handle = op_handle<ForwardOp>("rondo::attention");
  return handle.call(in.q, in.k, in.v, in.document_borders, in.scale, in.mask.left, in.mask.right,
                     in.mask.chunk, in.sinks, in.query_positions, in.key_positions, in.query_runs);
}
ThreeTensors call_backward(const AttentionOperands& in, const Tensor& grad, const Tensor& output,
                           const Tensor& logsumexp) {
  static const auto handle = op_handle<BackwardOp>("rondo::attention_backward");
  return handle.call(grad, in.q, in.k, in.v, output, logsumexp, in.document_borders, in.scale, in.mask.left,
                     in.mask.right, in.mask.chunk, in.query_positions, in.key_positions, in.query_runs);
}

TwoTensors forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& borders,
                       double scale, std::int64_t left, std::int64_t right, std::int64_t chunk,
                       const MaybeTensor& sinks, const MaybeTensor& query_positions,
                       const MaybeTensor& key_positions, std::int64_t) {
  return attention_forward_cpu(
      {q, k, v, borders, scale, {left, right, chunk}, sinks, query_positions, key_positions});
}
ThreeTensors backward_cpu(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& output, const Tensor& logsumexp, const MaybeTensor& borders,
                          double scale, std::int64_t left, std::int64_t right, std::int64_t chunk,
                          const MaybeTensor& query_positions, const MaybeTensor& key_positions,
                          std::int64_t) {
  return attention_backward_cpu(
      {q, k, v, borders, scale, {left, right, chunk}, {}, query_positions, key_positions}, grad, output,
      logsumexp);
}
// -sum over the tokens of exp(sink - logsumexp) (grad . output), the same code on every device.
Tensor sinks_backward(const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                      const Tensor& sinks) {
  const at::ScalarType sums = logsumexp.scalar_type();
  const Tensor products_BHT = (grad.to(sums) * output.to(sums)).sum(-1);
  // Memory in the order of tokens decides the order of the sum below.
  const Tensor by_token_BHT = logsumexp.transpose(1, 2).contiguous().transpose(1, 2);
  const Tensor weights_BHT = (sinks.to(sums).view({1, -1, 1}) - by_token_BHT).exp();
  return (weights_BHT * products_BHT).sum(at::IntArrayRef{0, 2}).neg().to(sinks.scalar_type());
}

TwoTensors forward_meta(const Tensor& q, const Tensor&, const Tensor& v, const MaybeTensor&, double,
                        std::int64_t, std::int64_t, std::int64_t, const MaybeTensor&, const MaybeTensor&,
                        const MaybeTensor&, std::int64_t) {
  return {empty_heads(q, v.size(3)), empty_logsumexp(q)};
}
ThreeTensors backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                           const Tensor&, const MaybeTensor&, double, std::int64_t, std::int64_t,
                           std::int64_t, const MaybeTensor&, const MaybeTensor&, std::int64_t) {
  return {empty_heads(q), empty_heads(k), empty_heads(v)};
}

struct Attention : torch::autograd::Function<Attention> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor&,
                                                const Tensor&, const Tensor&, const MaybeTensor& sinks,
                                                const AttentionOperands& in) {
    at::AutoDispatchBelowAutograd below_autograd;
    auto [output, logsumexp] = call_forward(in);
    const auto saved = [](const MaybeTensor& x) { return x.value_or(Tensor()); };
    context->save_for_backward({in.q, in.k, in.v, output, logsumexp, saved(in.document_borders),
                                saved(in.query_positions), saved(in.key_positions), saved(sinks)});
    context->saved_data["scale"] = in.scale;
    context->saved_data["mask"] =
        std::vector<std::int64_t>{in.mask.left, in.mask.right, in.mask.chunk, in.query_runs};
    context->mark_non_differentiable({logsumexp});
    context->set_materialize_grads(false);  // logsumexp has no gradient; no zeros replace it
    return {output, logsumexp};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto of_sinks = op_handle<SinksBackward>("rondo::attention_sinks_backward");
    const auto saved = context->get_saved_variables();
    const auto maybe = [](const Tensor& x) { return x.defined() ? MaybeTensor(x) : std::nullopt; };
    const std::vector<std::int64_t> mask = context->saved_data["mask"].toIntVector();
    auto [q, k, v] = call_backward({saved[0],
                                    saved[1],
                                    saved[2],
                                    maybe(saved[5]),
                                    context->saved_data["scale"].toDouble(),
                                    {mask[0], mask[1], mask[2]},
                                    {},
                                    maybe(saved[6]),
                                    maybe(saved[7]),
                                    mask[3]},
                                   gradients[0], saved[3], saved[4]);
    Tensor sinks;
    if (saved[8].defined()) sinks = of_sinks.call(gradients[0], saved[3], saved[4], saved[8]);
    return {q, k, v, sinks, {}};
  }
};

TwoTensors forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& borders,
                            double scale, std::int64_t left, std::int64_t right, std::int64_t chunk,
                            const MaybeTensor& sinks, const MaybeTensor& query_positions,
                            const MaybeTensor& key_positions, std::int64_t query_runs) {
  const auto results = Attention::apply(
      q, k, v, sinks,
      AttentionOperands{
          q, k, v, borders, scale, {left, right, chunk}, sinks, query_positions, key_positions, query_runs});
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
  return at::empty({s[0], s[1], s[2]}, q_BHTD.options().dtype(sum_dtype(q_BHTD)));
}

Tensor attention(const AttentionOperands& operands) { return std::get<0>(call_forward(operands)); }

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "attention(Tensor q, Tensor k, Tensor v, Tensor? document_borders, float scale, int left=-1, "
      "int right=0, int chunk=0, Tensor? sinks=None, Tensor? query_positions=None, "
      "Tensor? key_positions=None, int query_runs=0) -> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor output, Tensor logsumexp, "
      "Tensor? document_borders, float scale, int left=-1, int right=0, int chunk=0, "
      "Tensor? query_positions=None, Tensor? key_positions=None, int query_runs=0) -> (Tensor, Tensor, "
      "Tensor)");
  m.def("attention_sinks_backward(Tensor grad, Tensor output, Tensor logsumexp, Tensor sinks) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("attention", &forward_cpu);
  m.impl("attention_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("attention", &forward_meta);
  m.impl("attention_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) {
  m.impl("attention_sinks_backward", &sinks_backward);
}
TORCH_LIBRARY_IMPL(rondo, Autograd, m) { m.impl("attention", &forward_autograd); }

}  // namespace rondo

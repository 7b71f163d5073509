// rondo::attention, forward and backward: types, widths of heads, groups, documents, and both settings of
// debug.deterministic, against the formulas in fp64 with all scores in memory.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

struct Heads {
  const char* name;
  std::int64_t heads, groups, width, value_width;
};

// Documents of 1 token, of a few, and of many, in rows of `tokens`; cu_seqlens with a tail that repeats the
// end.
Tensor document_borders(std::int64_t rows, std::int64_t tokens) {
  std::vector<std::int32_t> borders;
  for (std::int64_t row = 0; row < rows; ++row)
    for (const std::int64_t begin :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{9}, tokens / 3, tokens - 5})
      borders.push_back(static_cast<std::int32_t>(row * tokens + begin));
  borders.resize(static_cast<std::size_t>(rows * tokens + 1), static_cast<std::int32_t>(rows * tokens));
  return at::tensor(borders, at::kInt);
}

// [B, 1, T, T]: whether a token must not see another.
Tensor hidden(const Tensor& borders, std::int64_t rows, std::int64_t tokens) {
  const Tensor position = at::arange(tokens, at::kLong);
  Tensor mask = position.view({-1, 1}).lt(position).expand({rows, 1, tokens, tokens});
  if (!borders.defined()) return mask;
  const Tensor begins = at::zeros({rows * tokens + 1}, at::kLong);
  begins.index_fill_(0, borders.to(at::kLong), 1);
  const Tensor document = begins.narrow(0, 0, rows * tokens).cumsum(0).view({rows, 1, tokens});
  return mask.bitwise_or(document.unsqueeze(-1).ne(document.unsqueeze(-2)));
}

Tensors formulas(const Tensors& in, const Tensor& borders) {
  const auto repeated = [&](const Tensor& x) {
    return x.repeat_interleave(in[0].size(2) / x.size(2), 2).transpose(1, 2);
  };
  const Tensor q = in[0].transpose(1, 2), k = repeated(in[1]), v = repeated(in[2]),
               grad = in[3].transpose(1, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor scores =
      (at::matmul(q, k.transpose(-2, -1)) * scale)
          .masked_fill(hidden(borders, q.size(0), q.size(2)), -std::numeric_limits<double>::infinity());
  const Tensor weights = at::softmax(scores, -1), output = at::matmul(weights, v);
  const Tensor grad_weights = at::matmul(grad, v.transpose(-2, -1));
  const Tensor grad_scores = weights * (grad_weights - (grad * output).sum(-1, true)) * scale;
  const auto summed = [&](const Tensor& x, const Tensor& like) {
    return x.unflatten(1, {like.size(2), x.size(1) / like.size(2)}).sum(2);
  };
  return {output, at::logsumexp(scores, {-1}), at::matmul(grad_scores, k),
          summed(at::matmul(grad_scores.transpose(-2, -1), q), in[1]),
          summed(at::matmul(weights.transpose(-2, -1), grad), in[2])};
}

Tensors attention(const Tensors& in, const Tensor& borders, const Place& place) {
  std::vector<Tensor> moved;
  for (const Tensor& x : in)
    moved.push_back(at_place(x, place).transpose(1, 2));  // [B, T, H, D] as [B, H, T, D]
  std::optional<Tensor> documents;
  if (borders.defined()) documents = borders.to(place.device);
  const double scale = 1 / std::sqrt(static_cast<double>(moved[0].size(3)));
  const Tensors out = call("attention", moved[0], moved[1], moved[2], documents, scale);
  const Tensors gradients =
      call("attention_backward", moved[3], moved[0], moved[1], moved[2], out[0], out[1], documents, scale);
  return {out[0], out[1], gradients[0], gradients[1], gradients[2]};
}

}  // namespace

void check_attention(Checks& checks, c10::Device device) {
  constexpr std::int64_t kRows = 2, kTokens = 200;
  for (const bool deterministic : {true, false}) {
    at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    for (const Heads& h :
         {Heads{"16 heads of 64", 16, 16, 64, 64}, Heads{"8 heads of 128 in 2 groups", 8, 2, 128, 128},
          Heads{"4 heads of 16", 4, 4, 16, 16}, Heads{"4 heads of 192 and 128", 4, 4, 192, 128}}) {
      for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
        for (const bool documents : {false, true}) {
          Inputs draw(type);
          const Tensors in = {draw.normal({kRows, kTokens, h.heads, h.width}),
                              draw.normal({kRows, kTokens, h.groups, h.width}),
                              draw.normal({kRows, kTokens, h.groups, h.value_width}),
                              draw.normal({kRows, kTokens, h.heads, h.value_width})};
          const Tensor borders = documents ? document_borders(kRows, kTokens) : Tensor();
          check(checks, device,
                {fmt::format("attention, {}, {}{}{}", h.name, in_words(type), documents ? ", documents" : "",
                             deterministic ? ", deterministic" : ""),
                 "attention", type, at::kDouble, type == at::kBFloat16 ? 4 * rounding(type) : 2e-5,
                 deterministic, [in, borders](const Place& place) {
                   return place.type == at::kDouble ? formulas(in, borders) : attention(in, borders, place);
                 }});
        }
      }
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

}  // namespace rondo

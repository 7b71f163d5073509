// rondo::attention, forward and backward: types, widths of heads, groups, masks, sinks, and both
// settings of debug.deterministic, against the formulas in fp64 with all scores in memory.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ops/attention/attention_choice.h"
#include "ops/attention/attention_mask.h"
#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

struct Heads {
  const char* name;
  std::int64_t heads, groups, width, value_width;
};

// Positions of queries and keys.
enum class Positions : std::uint8_t { own, any, head_and_tail };

struct Mask {
  const char* name;
  bool documents = false;
  AttentionMask terms = {};
  bool sinks = false;
  Positions positions = Positions::own;
};

// Documents of one, few and many tokens, in rows of `tokens`: cu_seqlens with a tail that repeats
// the end.
Tensor document_borders(std::int64_t rows, std::int64_t tokens) {
  std::vector<std::int32_t> borders;
  for (std::int64_t row = 0; row < rows; ++row)
    for (const std::int64_t begin :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{9}, tokens / 3, tokens - 5})
      borders.push_back(static_cast<std::int32_t>(row * tokens + begin));
  borders.resize(static_cast<std::size_t>(rows * tokens + 1), static_cast<std::int32_t>(rows * tokens));
  return at::tensor(borders, at::kInt);
}

// [B, 1, T, T]: whether a key is hidden from a query.
Tensor hidden(const Mask& mask, const Tensor& borders, std::int64_t rows, std::int64_t tokens) {
  const Tensor position = at::arange(tokens, at::kLong);
  const Tensor back = position.view({-1, 1}) - position;  // from a query to a key
  Tensor result = back.lt(-mask.terms.right).expand({rows, 1, tokens, tokens});
  if (mask.terms.left >= 0) result = result.bitwise_or(back.gt(mask.terms.left));
  Tensor begin = at::zeros({rows, 1, tokens}, at::kLong);  // of each token's document
  if (mask.documents) {
    const Tensor begins = at::zeros({rows * tokens + 1}, at::kLong);
    begins.index_fill_(0, borders.to(at::kLong), 1);
    const Tensor document = begins.narrow(0, 0, rows * tokens).cumsum(0).view({rows, 1, tokens});
    result = result.bitwise_or(document.unsqueeze(-1).ne(document.unsqueeze(-2)));
    const Tensor own = begins.narrow(0, 0, rows * tokens).view({rows, 1, tokens}) * position;
    begin = std::get<0>(own.cummax(-1));
  }
  if (mask.terms.chunk > 0) {
    const Tensor chunk = (position - begin).div(mask.terms.chunk, "floor");
    result = result.bitwise_or(chunk.unsqueeze(-1).ne(chunk.unsqueeze(-2)));
  }
  return result;
}

// Returns the outputs, and the gradients of queries, keys, values and, if present, sinks.
Tensors formulas(const Tensors& in, const Mask& mask, const Tensor& borders) {
  const auto repeated = [&](const Tensor& x) {
    return x.repeat_interleave(in[0].size(2) / x.size(2), 2).transpose(1, 2);
  };
  const Tensor q = in[0].transpose(1, 2), k = repeated(in[1]), v = repeated(in[2]),
               grad = in[3].transpose(1, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor scores =
      (at::matmul(q, k.transpose(-2, -1)) * scale)
          .masked_fill(hidden(mask, borders, q.size(0), q.size(2)), -std::numeric_limits<double>::infinity());
  Tensor total = at::logsumexp(scores, {-1});
  if (mask.sinks) total = at::logaddexp(total, in[4].view({1, -1, 1}));
  const Tensor weights = (scores - total.unsqueeze(-1)).exp(), output = at::matmul(weights, v);
  const Tensor grad_weights = at::matmul(grad, v.transpose(-2, -1));
  const Tensor grad_scores = weights * (grad_weights - (grad * output).sum(-1, true)) * scale;
  const auto summed = [&](const Tensor& x, const Tensor& like) {
    return x.unflatten(1, {like.size(2), x.size(1) / like.size(2)}).sum(2);
  };
  Tensors results{output, total, at::matmul(grad_scores, k),
                  summed(at::matmul(grad_scores.transpose(-2, -1), q), in[1]),
                  summed(at::matmul(weights.transpose(-2, -1), grad), in[2])};
  if (mask.sinks)
    results.push_back(
        -((in[4].view({1, -1, 1}) - total).exp() * (grad * output).sum(-1)).sum(at::IntArrayRef{0, 2}));
  return results;
}

// The queries of one call, and its order of keys.
struct Part {
  Tensor queries, keys;
  std::int64_t runs = 0;
};
std::vector<Part> parts_of(const Mask& mask, std::int64_t tokens) {
  const Tensor natural = at::arange(tokens);
  switch (mask.positions) {
    case Positions::own:
      break;
    case Positions::any:
      return {{natural * 7 % tokens, natural * 3 % tokens}};
    case Positions::head_and_tail: {
      const Tensor head = natural.narrow(0, 0, tokens / 4),
                   tail = natural.narrow(0, tokens / 4 * 3, tokens / 4);
      return {{at::cat({head, tail}), natural, 2}, {natural.narrow(0, tokens / 4, tokens / 2), natural, 1}};
    }
  }
  return {{natural, natural}};
}

Tensors attention(const Tensors& in, const Mask& mask, const Tensor& borders, const Place& place) {
  const std::int64_t rows = in[0].size(0), tokens = in[0].size(1);
  std::optional<Tensor> documents, sinks;
  if (mask.documents) documents = borders.to(place.device);
  if (mask.sinks) sinks = at_place(in[4], place);
  const auto& [left, right, chunk] = mask.terms;
  Tensors results;
  for (const Part& part : parts_of(mask, tokens)) {
    const auto as_positions = [&](const Tensor& order, bool given) -> std::optional<Tensor> {
      if (!given) return std::nullopt;
      return order.to(at::kInt).expand({rows, order.size(0)}).contiguous().to(place.device);
    };
    const std::optional<Tensor> query_positions =
                                    as_positions(part.queries, mask.positions != Positions::own),
                                key_positions = as_positions(part.keys, mask.positions == Positions::any);
    std::vector<Tensor> moved;
    for (std::size_t i = 0; i < 4; ++i)  // [B, T, H, D] as [B, H, T, D]
      moved.push_back(at_place(in[i].index_select(1, i == 0 || i == 3 ? part.queries : part.keys), place)
                          .transpose(1, 2));
    const double scale = 1 / std::sqrt(static_cast<double>(moved[0].size(3)));
    const Tensors out = call("attention", moved[0], moved[1], moved[2], documents, scale, left, right, chunk,
                             sinks, query_positions, key_positions, part.runs);
    Tensors made = out;
    for (const Tensor& gradient :
         call("attention_backward", moved[3], moved[0], moved[1], moved[2], out[0], out[1], documents, scale,
              left, right, chunk, query_positions, key_positions, part.runs))
      made.push_back(gradient);
    if (mask.sinks)
      made.push_back(call("attention_sinks_backward", moved[3], out[0], out[1], *sinks).front());
    // Results of queries are placed, those of keys and sinks are added.
    const Tensor queries = part.queries.to(place.device), keys = part.keys.to(place.device);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (results.size() == i) {
        std::vector<std::int64_t> sizes = made[i].sizes().vec();
        if (i < 3) sizes[2] = tokens;
        results.push_back(at::zeros(sizes, made[i].options()));
      }
      if (i < 5)
        results[i].index_add_(2, i < 3 ? queries : keys, made[i]);
      else
        results[i].add_(made[i]);
    }
  }
  return results;
}

// Rows as long as in pretraining, by each kernel that trains such rows. A self-test on a CPU uses
// short rows.
void check_long_rows(Checks& checks, c10::Device device) {
  const std::int64_t tokens = device.is_cuda() ? 4096 : 256;
  Inputs draw(at::kBFloat16);
  const Tensors in = {draw.normal({1, tokens, 2, 128}), draw.normal({1, tokens, 1, 128}),
                      draw.normal({1, tokens, 1, 128}), draw.normal({1, tokens, 2, 128}), draw.normal({2})};
  for (const AttentionKernel kernel : {AttentionKernel::cudnn, AttentionKernel::flash}) {
    set_attention_kernel(kernel);
    check(checks, device,
          {fmt::format("attention, {} tokens, bf16, by {}", tokens, name_of(kernel)), "attention",
           at::kBFloat16, at::kDouble, 4 * rounding(at::kBFloat16), false, [in](const Place& place) {
             return place.type == at::kDouble ? formulas(in, Mask{""}, Tensor())
                                              : attention(in, Mask{""}, Tensor(), place);
           }});
  }
  set_attention_kernel(std::nullopt);
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
        for (const Mask& mask :
             {Mask{""}, Mask{", documents", true}, Mask{", a window", false, {.left = 30}},
              Mask{", chunks", false, {.chunk = 48}},
              Mask{", documents, a window, chunks and sinks", true, {.left = 20, .chunk = 150}, true},
              Mask{", sinks", false, {}, true},
              Mask{", documents at any positions", true, {}, false, Positions::any},
              Mask{", heads and tails of rows", false, {}, false, Positions::head_and_tail},
              Mask{", heads and tails of documents, a window and sinks",
                   true,
                   {.left = 40},
                   true,
                   Positions::head_and_tail}}) {
          const bool beyond_documents =
              mask.sinks || mask.positions != Positions::own || mask.terms != AttentionMask{};
          // they choose the kernels of documents
          if (beyond_documents && (deterministic || h.heads == 4)) continue;
          Inputs draw(type);
          const Tensors in = {draw.normal({kRows, kTokens, h.heads, h.width}),
                              draw.normal({kRows, kTokens, h.groups, h.width}),
                              draw.normal({kRows, kTokens, h.groups, h.value_width}),
                              draw.normal({kRows, kTokens, h.heads, h.value_width}), draw.normal({h.heads})};
          const Tensor borders = document_borders(kRows, kTokens);
          const auto check_by = [&](std::optional<AttentionKernel> kernel) {
            set_attention_kernel(kernel);
            check(checks, device,
                  {fmt::format("attention, {}, {}{}{}{}", h.name, in_words(type), mask.name,
                               deterministic ? ", deterministic" : "",
                               kernel ? fmt::format(", by {}", name_of(*kernel)) : ""),
                   "attention", type, at::kDouble, type == at::kBFloat16 ? 4 * rounding(type) : 2e-5,
                   deterministic, [in, mask, borders](const Place& place) {
                     return place.type == at::kDouble ? formulas(in, mask, borders)
                                                      : attention(in, mask, borders, place);
                   }});
            set_attention_kernel(std::nullopt);
          };
          check_by(std::nullopt);
          // With its headers in the build, cuDNN takes these cases first.
          const bool has_choice = type == at::kBFloat16 && !deterministic &&
                                  mask.positions != Positions::any && (mask.documents || beyond_documents);
          if (has_choice && h.width == h.value_width && !mask.sinks) check_by(AttentionKernel::flash);
        }
      }
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  check_long_rows(checks, device);
}

}  // namespace rondo

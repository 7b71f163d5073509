// Prepares the operands of each kernel. attention_choice.h defines the cases that each kernel
// supports.
//
// Note [Short documents]. There can be as many documents as tokens, and shapes do not tell their
// number. Flash and cuDNN launch blocks for each sequence, and flash's backward stores 128
// additional rows of fp32 sums for each. For 8,192 tokens and as many sequences, these are 16.8
// million blocks and 17 GB (32 heads of 128). So they get at most most_sequences() sequences. A
// document of short_document() tokens or more is one sequence; there cannot be many of them. The
// short documents between them form one sequence; its results are wrong, and `direct` overwrites
// them. That leaves 264,000 blocks, nearly all of which end at once, and 0.4 GB of sums. A launch
// takes 65,535 sequences, so from 4.2 million tokens on, longer documents count as short.
#include "ops/attention/attention_library.h"

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_cudnn.h"
#include "ops/attention/attention_heads.h"
#include "ops/kernel/launch.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Operands = KernelOperands;
using Outputs = AttentionOutputs;
using Gradients = AttentionGradients;

Tensor flattened(const Tensor& x_BHTD) {  // [B * T, H, D]
  const Tensor x = by_token(x_BHTD);
  return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)});
}
Tensor unflattened(const Tensor& x, std::int64_t rows) {  // [B * T, H, ...] to [B, H, T, ...]
  return x.unflatten(0, {rows, x.size(0) / rows}).transpose(1, 2);
}

// --- cuDNN, causal rows ---

Outputs causal_cudnn_forward(const Operands& in) {
  auto results =
      at::_scaled_dot_product_cudnn_attention(in.q, in.k, in.v, {}, /*compute_log_sumexp=*/true, 0.0,
                                              /*is_causal=*/true, /*return_debug_mask=*/false, in.scale);
  return {std::get<0>(results), std::get<1>(results).reshape({in.rows(), in.heads(), in.tokens()})};
}
// 2.11 takes logsumexp [B, H, T, 1] in this backward. Later versions take [B, H, T], and add the
// dimension themselves.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11);
Gradients causal_cudnn_backward(const Operands& in, const Tensor& grad, const Tensor& output,
                                const Tensor& logsumexp) {
  const Tensor no_seed = at::empty({}, in.q.options().dtype(at::kLong));  // there is no dropout
  return at::_scaled_dot_product_cudnn_attention_backward(
      grad, in.q, in.k, in.v, output, logsumexp.contiguous().unsqueeze(-1), no_seed, no_seed, Tensor(),
      Tensor(), Tensor(), in.tokens(), in.tokens(), 0.0, /*is_causal=*/true, in.scale);
}

// --- flash, with groups ---

bool is_causal(const Operands& in) { return in.mask.right == 0; }

Outputs flash_forward(const Operands& in) {
  const auto results = at::_flash_attention_forward(
      by_token(in.q), by_token(in.k), by_token(in.v), {}, {}, in.tokens(), in.tokens(), 0.0, is_causal(in),
      /*return_debug_mask=*/false, std::optional<double>(in.scale), in.mask.left, in.mask.right);
  return {by_token(std::get<0>(results)), std::get<1>(results)};
}
Gradients flash_backward(const Operands& in, const Tensor& grad, const Tensor& output,
                         const Tensor& logsumexp) {
  const auto [grad_q, grad_k, grad_v] = at::_flash_attention_backward(
      by_token(grad), by_token(in.q), by_token(in.k), by_token(in.v), by_token(output),
      logsumexp.contiguous(), Tensor(), Tensor(), in.tokens(), in.tokens(), 0.0, is_causal(in), Tensor(),
      Tensor(), in.scale, in.mask.left, in.mask.right);
  return {by_token(grad_q), by_token(grad_k), by_token(grad_v)};
}

// The borders of sequences: Note [Short documents].
Tensor merged_borders(const Operands& in) {
  const cuda::Launch launch(in.q, "attention");
  const Tensor borders = in.borders->contiguous();
  const std::int64_t shorter_than = short_document(in.rows(), in.keys());
  const std::int64_t room = cuda::most_sequences(in.rows(), in.keys(), shorter_than);
  const Tensor merged = at::empty({room + 1}, borders.options());
  cuda::merge_short_documents(borders.const_data_ptr<std::int32_t>(), borders.numel(), in.rows(), in.keys(),
                              shorter_than, int32_data(merged), room, launch.stream());
  launch.check();
  return merged;
}

// Queries [first, first + length) of each row, and the sequences of the run's queries and of all
// keys.
struct Run {
  std::int64_t first, length;
  Tensor of_queries, of_keys;
  Tensor part_of(const Tensor& x_BHT) const { return x_BHT.narrow(2, first, length); }
};

// Note [Runs of queries]: flash and cuDNN align the last query of a sequence with its last key. So
// a run of queries at positions [s, e) of a row is a separate call, with the keys in order. The
// parts of documents before e are sequences. The keys from e on are a sequence without queries,
// with zero gradients.
std::vector<Run> runs_of(const Operands& in) {
  const Tensor borders = in.borders ? merged_borders(in) : Tensor();
  if (!in.query_positions) return {{0, in.tokens(), borders, borders}};
  const cuda::Launch launch(in.q, "attention");
  const std::int64_t count = borders.defined() ? borders.numel() : in.rows() + 1;
  const std::int64_t length = in.tokens() / in.query_runs;
  RONDO_ASSERT(length * in.query_runs == in.tokens(), "runs of queries have equal lengths");
  std::vector<Run> runs;
  for (std::int64_t first = 0; first < in.tokens(); first += length) {
    const auto sequences = [&] { return at::empty({count + in.rows()}, in.query_positions->options()); };
    const Run& run = runs.emplace_back(Run{first, length, sequences(), sequences()});
    cuda::sequences_of_run(borders.defined() ? borders.const_data_ptr<std::int32_t>() : nullptr, count,
                           in.rows(), in.keys(),
                           {first, length, in.tokens(), in.query_positions->const_data_ptr<std::int32_t>()},
                           int32_data(run.of_queries), int32_data(run.of_keys), launch.stream());
    launch.check();
  }
  return runs;
}

Tensor concatenated(const std::vector<Tensor>& of_runs) {
  return of_runs.size() == 1 ? of_runs[0] : at::cat(of_runs, 2);
}

// Joins the results of the runs: each(run) returns those of its queries.
template <class Each>
Outputs forward_of_runs(const Operands& in, const Each& each) {
  std::vector<Tensor> outputs, scores;
  for (const Run& run : runs_of(in)) {
    const Outputs results = each(run);
    outputs.push_back(std::get<0>(results));
    scores.push_back(std::get<1>(results));
  }
  return {concatenated(outputs), concatenated(scores)};
}
// Joins the gradients of queries, and adds those of keys and values.
template <class Each>
Gradients backward_of_runs(const Operands& in, const Each& each) {
  std::vector<Tensor> grads_of_q;
  Tensor grad_k, grad_v;
  const auto add = [](Tensor& sum, const Tensor& more) { sum = sum.defined() ? sum.add_(more) : more; };
  for (const Run& run : runs_of(in)) {
    const auto [of_q, of_k, of_v] = each(run);
    grads_of_q.push_back(of_q);
    add(grad_k, of_k);
    add(grad_v, of_v);
  }
  return {concatenated(grads_of_q), grad_k, grad_v};
}

Operands widened(const Operands& in) {
  Operands widened_operands = in;
  const std::int64_t width = std::max(in.q.size(3), in.v.size(3));
  widened_operands.q = widen(in.q, width), widened_operands.k = widen(in.k, width),
  widened_operands.v = widen(in.v, width);
  return widened_operands;
}

Outputs flash_sequences_forward(const Operands& narrow) {
  const Operands in = widened(narrow);
  const auto [output, scores] = forward_of_runs(in, [&](const Run& run) -> Outputs {
    const auto results = at::_flash_attention_forward(
        flattened(run.part_of(in.q)), flattened(in.k), flattened(in.v), run.of_queries, run.of_keys,
        run.length, in.keys(), 0.0, is_causal(in), /*return_debug_mask=*/false,
        std::optional<double>(in.scale), in.mask.left, in.mask.right);
    return {unflattened(std::get<0>(results), in.rows()), unflattened(std::get<1>(results).t(), in.rows())};
  });
  return {narrow_to(output, narrow.v.size(3)), scores};
}
Gradients flash_sequences_backward(const Operands& narrow, const Tensor& grad, const Tensor& output,
                                   const Tensor& logsumexp) {
  const Operands in = widened(narrow);
  const std::int64_t width = in.v.size(3);
  const Tensor wide_grad = widen(grad, width), wide_output = widen(output, width);
  const auto [grad_q, grad_k, grad_v] = backward_of_runs(in, [&](const Run& run) -> Gradients {
    const Tensor by_head =
        by_token(run.part_of(logsumexp)).reshape({in.rows() * run.length, in.heads()}).t().contiguous();
    const auto [of_q, of_k, of_v] = at::_flash_attention_backward(
        flattened(run.part_of(wide_grad)), flattened(run.part_of(in.q)), flattened(in.k), flattened(in.v),
        flattened(run.part_of(wide_output)), by_head, run.of_queries, run.of_keys, run.length, in.keys(), 0.0,
        is_causal(in), Tensor(), Tensor(), in.scale, in.mask.left, in.mask.right);
    return {unflattened(of_q, in.rows()), unflattened(of_k, in.rows()), unflattened(of_v, in.rows())};
  });
  return {narrow_to(grad_q, narrow.q.size(3)), narrow_to(grad_k, narrow.k.size(3)),
          narrow_to(grad_v, narrow.v.size(3))};
}

// --- cuDNN ---

bool is_plain(const Operands& in) { return !in.has_sequences() && in.mask == AttentionMask{}; }
std::optional<AttentionSequences> sequences_of(const Run& run) {
  if (!run.of_queries.defined()) return std::nullopt;
  return AttentionSequences{run.of_queries, run.of_keys};
}
Operands with_queries_of(const Run& run, const Operands& in) {
  Operands operands = in;
  operands.q = run.part_of(in.q);
  return operands;
}

Outputs cudnn_forward(const Operands& in) {
  if (is_plain(in)) return causal_cudnn_forward(in);
  return forward_of_runs(
      in, [&](const Run& run) { return cudnn_graph_attention(with_queries_of(run, in), sequences_of(run)); });
}
Gradients cudnn_backward(const Operands& in, const Tensor& grad, const Tensor& output,
                         const Tensor& logsumexp) {
  if (is_plain(in)) return causal_cudnn_backward(in, grad, output, logsumexp);
  return backward_of_runs(in, [&](const Run& run) {
    return cudnn_graph_attention_backward(with_queries_of(run, in), sequences_of(run), run.part_of(grad),
                                          run.part_of(output), run.part_of(logsumexp));
  });
}

// --- efficient: one head of keys per head of queries, padded rows of scores ---

constexpr std::int64_t kCausalFromTopLeft = 1;  // LibTorch's CustomMaskType
constexpr std::int64_t kEfficientPadding = 32;

Outputs efficient_forward(const Operands& in) {
  const Tensor k = repeat_groups(in.k, in.heads()), v = repeat_groups(in.v, in.heads());
  const auto results =
      at::_efficient_attention_forward(by_token(in.q), by_token(k), by_token(v), {}, {}, {}, {}, {}, 0.0,
                                       kCausalFromTopLeft, /*compute_log_sumexp=*/true, in.scale);
  return {by_token(std::get<0>(results)), std::get<1>(results).narrow(2, 0, in.tokens())};
}
Gradients efficient_backward(const Operands& in, const Tensor& grad, const Tensor& output,
                             const Tensor& logsumexp) {
  const Tensor k = repeat_groups(in.k, in.heads()), v = repeat_groups(in.v, in.heads());
  const std::int64_t padded = (in.tokens() + kEfficientPadding - 1) / kEfficientPadding * kEfficientPadding;
  // After the last token, weights are exp(-infinity).
  const Tensor rows =
      at::full({in.rows(), in.heads(), padded}, std::numeric_limits<float>::infinity(), logsumexp.options());
  rows.narrow(2, 0, in.tokens()).copy_(logsumexp);
  const auto [grad_q, grad_k, grad_v, grad_bias] = at::_efficient_attention_backward(
      by_token(grad), by_token(in.q), by_token(k), by_token(v), {}, by_token(output), {}, {}, in.tokens(),
      in.tokens(), rows, 0.0, Tensor(), Tensor(), kCausalFromTopLeft, /*bias_requires_grad=*/false, in.scale);
  return {by_token(grad_q), sum_groups(by_token(grad_k), in.k), sum_groups(by_token(grad_v), in.v)};
}

}  // namespace

Outputs library_attention(AttentionKernel kernel, const Operands& in) {
  if (kernel == AttentionKernel::cudnn) return cudnn_forward(in);
  if (kernel == AttentionKernel::efficient) return efficient_forward(in);
  RONDO_ASSERT(kernel == AttentionKernel::flash, "LibTorch has this kernel");
  return in.has_sequences() ? flash_sequences_forward(in) : flash_forward(in);
}

Gradients library_attention_backward(AttentionKernel kernel, const Operands& in, const Tensor& grad,
                                     const Tensor& output, const Tensor& logsumexp) {
  if (kernel == AttentionKernel::cudnn) return cudnn_backward(in, grad, output, logsumexp);
  if (kernel == AttentionKernel::efficient) return efficient_backward(in, grad, output, logsumexp);
  RONDO_ASSERT(kernel == AttentionKernel::flash, "LibTorch has this kernel");
  return in.has_sequences() ? flash_sequences_backward(in, grad, output, logsumexp)
                            : flash_backward(in, grad, output, logsumexp);
}

}  // namespace rondo

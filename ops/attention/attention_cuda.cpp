// rondo::attention on CUDA: LibTorch's kernels, called by name, and ours (attention_choice.h). Nothing is
// read on the host: sizes of sequences come from shapes, no kernel has dropout, so seeds and offsets stay
// empty.
//
// Note [Short documents]. There can be as many documents as tokens, and shapes do not know how many there
// are. Flash launches blocks for each sequence it is told of, and its backward keeps 128 further rows of sums
// in fp32 for each: for 8,192 tokens and as many sequences, 16.8 million blocks and 17 GB (32 heads of 128).
// So flash is told of at most most_sequences(): documents of kShortDocument tokens and more are one each, of
// which there cannot be many, and what short documents lie between them are one together, whose results are
// wrong and are overwritten by `direct`. What is left are 264,000 blocks, nearly all of which end at once,
// and 0.4 GB of sums.
#include "ops/attention/attention_cuda.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/attention_choice.h"
#include "ops/attention/attention_heads.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"
#include "support/log.h"

namespace rondo {
namespace {

using at::Tensor;
using Borders = std::optional<Tensor>;
using Outputs = std::tuple<Tensor, Tensor>;            // [B, H, T, V] and fp32 [B, H, T], of any strides
using Gradients = std::tuple<Tensor, Tensor, Tensor>;  // of queries, keys and values, of any strides

struct Operands {
  Tensor q, k, v;   // [B, heads, T, width], readable
  Borders borders;  // of documents, and of chunks
  double scale;
  AttentionMask mask;  // its chunks are in the borders
  std::int64_t rows() const { return q.size(0); }
  std::int64_t heads() const { return q.size(1); }
  std::int64_t tokens() const { return q.size(2); }
};

Tensor by_token(const Tensor& x_BHTD) { return x_BHTD.transpose(1, 2); }  // [B, T, H, D]
Tensor flattened(const Tensor& x_BHTD) {                                  // [B * T, H, D]
  const Tensor x = by_token(x_BHTD);
  return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)});
}
Tensor unflattened(const Tensor& x, std::int64_t rows) {  // [B * T, H, ...] to [B, H, T, ...]
  return x.unflatten(0, {rows, x.size(0) / rows}).transpose(1, 2);
}

// --- documents and chunks ---

std::int32_t* data(const Tensor& x) { return x.mutable_data_ptr<std::int32_t>(); }

// [B * T, 2]
Tensor spans_of(const Tensor& q, const Borders& borders) {
  const cuda::Launch launch(q, "attention");
  const Tensor spans = at::empty({q.size(0) * q.size(2), 2}, q.options().dtype(at::kInt));
  const Tensor given = borders ? borders->contiguous() : Tensor();
  cuda::document_spans(borders ? given.const_data_ptr<std::int32_t>() : nullptr, borders ? given.numel() : 0,
                       q.size(0), q.size(2), data(spans), launch.stream());
  launch.check();
  return spans;
}

Tensor cut_into_chunks(const Tensor& q, const Borders& borders, std::int64_t chunk) {
  const cuda::Launch launch(q, "attention");
  const std::int64_t all = q.size(0) * q.size(2);
  const Tensor spans = spans_of(q, borders), pieces = at::empty({all + 1}, spans.options());
  cuda::cut_documents(data(spans), all, chunk, data(pieces), launch.stream());
  launch.check();
  return pieces;
}

// --- cuDNN ---

Outputs cudnn_forward(const Operands& in) {
  auto results =
      at::_scaled_dot_product_cudnn_attention(in.q, in.k, in.v, {}, /*compute_log_sumexp=*/true, 0.0,
                                              /*is_causal=*/true, /*return_debug_mask=*/false, in.scale);
  return {std::get<0>(results), std::get<1>(results).reshape({in.rows(), in.heads(), in.tokens()})};
}
Gradients cudnn_backward(const Operands& in, const Tensor& grad, const Tensor& output,
                         const Tensor& logsumexp) {
  const Tensor no_seed = at::empty({}, in.q.options().dtype(at::kLong));  // there is no dropout
  return at::_scaled_dot_product_cudnn_attention_backward(
      grad, in.q, in.k, in.v, output, logsumexp.contiguous().unsqueeze(-1), no_seed, no_seed, Tensor(),
      Tensor(), Tensor(), in.tokens(), in.tokens(), 0.0, /*is_causal=*/true, in.scale);
}

// --- flash: groups and all ---

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

// The borders that flash is told of: Note [Short documents].
Tensor sequences_of(const Operands& in) {
  const cuda::Launch launch(in.q, "attention");
  const Tensor borders = in.borders->contiguous();
  const std::int64_t room = cuda::most_sequences(in.rows(), in.tokens(), kShortDocument);
  const Tensor sequences = at::empty({room + 1}, borders.options());
  cuda::merge_short_documents(borders.const_data_ptr<std::int32_t>(), borders.numel(), in.rows(), in.tokens(),
                              kShortDocument, sequences.mutable_data_ptr<std::int32_t>(), room,
                              launch.stream());
  launch.check();
  return sequences;
}

Operands widened(const Operands& in) {
  Operands wide = in;
  const std::int64_t width = std::max(in.q.size(3), in.v.size(3));
  wide.q = widen(in.q, width), wide.k = widen(in.k, width), wide.v = widen(in.v, width);
  return wide;
}

Outputs flash_documents_forward(const Operands& narrow) {
  const Operands in = widened(narrow);
  const Tensor sequences = sequences_of(in);
  const auto results =
      at::_flash_attention_forward(flattened(in.q), flattened(in.k), flattened(in.v), sequences, sequences,
                                   in.tokens(), in.tokens(), 0.0, is_causal(in), /*return_debug_mask=*/false,
                                   std::optional<double>(in.scale), in.mask.left, in.mask.right);
  const Tensor output = unflattened(std::get<0>(results), in.rows());
  return {narrow_to(output, narrow.v.size(3)), unflattened(std::get<1>(results).t(), in.rows())};
}
Gradients flash_documents_backward(const Operands& narrow, const Tensor& grad, const Tensor& output,
                                   const Tensor& logsumexp) {
  const Operands in = widened(narrow);
  const Tensor sequences = sequences_of(in);
  const Tensor by_head = by_token(logsumexp).reshape({in.rows() * in.tokens(), in.heads()}).t().contiguous();
  const std::int64_t width = in.v.size(3);
  const auto [grad_q, grad_k, grad_v] = at::_flash_attention_backward(
      flattened(widen(grad, width)), flattened(in.q), flattened(in.k), flattened(in.v),
      flattened(widen(output, width)), by_head, sequences, sequences, in.tokens(), in.tokens(), 0.0,
      is_causal(in), Tensor(), Tensor(), in.scale, in.mask.left, in.mask.right);
  const auto narrowed = [&](const Tensor& x, const Tensor& like) {
    return narrow_to(unflattened(x, in.rows()), like.size(3));
  };
  return {narrowed(grad_q, narrow.q), narrowed(grad_k, narrow.k), narrowed(grad_v, narrow.v)};
}

// --- efficient: every query has a head of its own, and scores' rows are padded ---

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
  // Behind the last token weights are exp(-infinity).
  const Tensor rows =
      at::full({in.rows(), in.heads(), padded}, std::numeric_limits<float>::infinity(), logsumexp.options());
  rows.narrow(2, 0, in.tokens()).copy_(logsumexp);
  const auto [grad_q, grad_k, grad_v, grad_bias] = at::_efficient_attention_backward(
      by_token(grad), by_token(in.q), by_token(k), by_token(v), {}, by_token(output), {}, {}, in.tokens(),
      in.tokens(), rows, 0.0, Tensor(), Tensor(), kCausalFromTopLeft, /*bias_requires_grad=*/false, in.scale);
  return {by_token(grad_q), sum_groups(by_token(grad_k), in.k), sum_groups(by_token(grad_v), in.v)};
}

// --- direct ---

cuda::Heads heads_of(const Tensor& x_BHTD) {
  return {const_cast<void*>(x_BHTD.const_data_ptr()), x_BHTD.stride(0), x_BHTD.stride(1), x_BHTD.stride(2)};
}

class Direct {
 public:
  Direct(const Operands& in, std::int64_t shorter_than)
      : in_(in),
        launch_(in.q, "attention"),
        spans_(spans_of(in.q, in.borders)),
        shape_{launch_.element(in.q), in.rows(),    in.tokens(), in.heads(),   in.k.size(1),
               in.q.size(3),          in.v.size(3), in.scale,    shorter_than, in.mask} {}

  // `output` and `logsumexp` as empty_heads and empty_logsumexp make them.
  void forward(const Tensor& output, const Tensor& logsumexp) const {
    cuda::direct_forward(shape_, data(spans_), heads_of(in_.q), heads_of(in_.k), heads_of(in_.v),
                         heads_of(output), logsumexp.mutable_data_ptr(), launch_.stream());
    launch_.check();
  }

  void backward(const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                const Gradients& to) const {
    const Tensor products =
        at::empty({in_.rows() * in_.tokens(), in_.heads()}, in_.q.options().dtype(sum_dtype(in_.q)));
    const Tensor by_token_of_scores = by_token(logsumexp).contiguous();
    cuda::direct_backward(shape_, data(spans_), heads_of(grad), heads_of(in_.q), heads_of(in_.k),
                          heads_of(in_.v), heads_of(output), by_token_of_scores.const_data_ptr(),
                          heads_of(std::get<0>(to)), heads_of(std::get<1>(to)), heads_of(std::get<2>(to)),
                          products.mutable_data_ptr(), launch_.stream());
    launch_.check();
  }

 private:
  const Operands& in_;
  const cuda::Launch launch_;
  const Tensor spans_;
  const cuda::DirectShape shape_;
};

// --- sinks ---

// `output` and `logsumexp` likewise.
void add_sinks(const Tensor& sinks, const Tensor& output, const Tensor& logsumexp) {
  const cuda::Launch launch(output, "attention");
  const Tensor of_type = sinks.to(output.scalar_type()).contiguous();
  cuda::add_sinks(launch.element(output), logsumexp.numel(), sinks.numel(), output.size(3),
                  of_type.const_data_ptr(), output.mutable_data_ptr(), logsumexp.mutable_data_ptr(),
                  launch.stream());
  launch.check();
}

// --- the ops ---

// Says once what a case is computed by.
void log_choice(const AttentionCase& now) {
  static std::mutex mutex;
  static std::vector<AttentionCase> said;
  const std::lock_guard lock(mutex);
  if (std::find(said.begin(), said.end(), now) != said.end()) return;
  said.push_back(now);
  log_info(attention_kernel_in_words(now));
}

// As LibTorch is set up now: deterministic or not.
AttentionCase attention_case(const Tensor& q, const Tensor& v, const Borders& borders,
                             const AttentionMask& mask) {
  using Type = AttentionCase::Type;
  const auto& hooks = at::detail::getCUDAHooks();
  static const std::int64_t cudnn = hooks.hasCuDNN() ? hooks.versionRuntimeCuDNN() : 0;
  const at::ScalarType type = q.scalar_type();
  RONDO_ASSERT(type == at::kBFloat16 || type == at::kFloat || type == at::kDouble,
               std::string("attention has no heads of ") + c10::toString(type) + " on CUDA");
  return {.type = type == at::kBFloat16 ? Type::bf16 : (type == at::kFloat ? Type::fp32 : Type::fp64),
          .width = q.size(3),
          .value_width = v.size(3),
          .tokens = q.size(2),
          .documents = borders.has_value(),
          .mask = mask,
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .capability_major = at::cuda::getDeviceProperties(q.device().index())->major,
          .cudnn = cudnn};
}

struct Call {
  Operands in;
  AttentionKernel kernel;
};
Call call_of(const Tensor& q, const Tensor& k, const Tensor& v, const Borders& documents, double scale,
             const AttentionMask& asked, const Borders& query_positions, const Borders& key_positions) {
  RONDO_ASSERT(!query_positions && !key_positions, "attention has no positions on CUDA");
  AttentionMask mask = effective_mask(asked, q.size(2));
  const AttentionCase now = attention_case(q, v, documents, mask);
  log_choice(now);
  Borders borders = documents;
  if (mask.chunk > 0) borders = cut_into_chunks(q, documents, std::exchange(mask.chunk, 0));
  return {{readable(q), readable(k), readable(v), borders, scale, mask}, choose_attention(now)};
}

Outputs forward_by(AttentionKernel kernel, const Operands& in) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return cudnn_forward(in);
    case AttentionKernel::flash:
      return in.borders ? flash_documents_forward(in) : flash_forward(in);
    case AttentionKernel::efficient:
      return efficient_forward(in);
    case AttentionKernel::direct:
      break;
  }
  const Outputs results{empty_heads(in.q, in.v.size(3)), empty_logsumexp(in.q)};
  Direct(in, 0).forward(std::get<0>(results), std::get<1>(results));
  return results;
}

Outputs forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Borders& borders, double scale,
                     std::int64_t left, std::int64_t right, std::int64_t chunk,
                     const std::optional<Tensor>& sinks, const Borders& query_positions,
                     const Borders& key_positions) {
  const auto [in, kernel] =
      call_of(q, k, v, borders, scale, {left, right, chunk}, query_positions, key_positions);
  const auto [computed, scores] = forward_by(kernel, in);
  const Tensor output = as_planned(computed);
  Tensor logsumexp = empty_logsumexp(q);
  if (logsumexp.strides() == scores.strides())
    logsumexp = scores;
  else
    logsumexp.copy_(scores);
  if (kernel == AttentionKernel::flash && in.borders) Direct(in, kShortDocument).forward(output, logsumexp);
  if (sinks) add_sinks(*sinks, output, logsumexp);
  return {output, logsumexp};
}

Gradients backward_by(AttentionKernel kernel, const Operands& in, const Tensor& grad, const Tensor& output,
                      const Tensor& logsumexp) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return cudnn_backward(in, grad, output, logsumexp);
    case AttentionKernel::flash:
      return in.borders ? flash_documents_backward(in, grad, output, logsumexp)
                        : flash_backward(in, grad, output, logsumexp);
    case AttentionKernel::efficient:
      return efficient_backward(in, grad, output, logsumexp);
    case AttentionKernel::direct:
      break;
  }
  const Gradients results{empty_heads(in.q), empty_heads(in.k), empty_heads(in.v)};
  Direct(in, 0).backward(grad, output, logsumexp, results);
  return results;
}

Gradients backward_cuda(const Tensor& grad_of_output, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& saved_output, const Tensor& logsumexp, const Borders& borders,
                        double scale, std::int64_t left, std::int64_t right, std::int64_t chunk,
                        const Borders& query_positions, const Borders& key_positions) {
  const auto [in, kernel] =
      call_of(q, k, v, borders, scale, {left, right, chunk}, query_positions, key_positions);
  const Tensor grad = readable(grad_of_output), output = as_planned(saved_output);
  const auto [grad_q, grad_k, grad_v] = backward_by(kernel, in, grad, output, logsumexp);
  const Gradients results{as_planned(grad_q), as_planned(grad_k), as_planned(grad_v)};
  if (kernel == AttentionKernel::flash && in.borders)
    Direct(in, kShortDocument).backward(grad, output, logsumexp, results);
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("attention", &forward_cuda);
  m.impl("attention_backward", &backward_cuda);
}

}  // namespace rondo

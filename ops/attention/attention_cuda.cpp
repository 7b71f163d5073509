// rondo::attention on CUDA: LibTorch's kernels, called by name, and Rondo's own
// (attention_choice.h). Nothing is read on the host. Sizes of sequences come from shapes. No kernel
// has dropout, so seeds and offsets stay empty.
#include "ops/attention/attention_cuda.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/attention_choice.h"
#include "ops/attention/attention_cudnn.h"
#include "ops/attention/attention_heads.h"
#include "ops/attention/attention_library.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"
#include "support/log.h"

namespace rondo {
namespace {

using at::Tensor;
using Borders = std::optional<Tensor>;
using Operands = KernelOperands;
using Outputs = AttentionOutputs;
using Gradients = AttentionGradients;

// --- documents and chunks ---

// [B * S, 2]
Tensor spans_of(const Tensor& k, const Borders& borders) {
  const cuda::Launch launch(k, "attention");
  const Tensor spans = at::empty({k.size(0) * k.size(2), 2}, k.options().dtype(at::kInt));
  const Tensor contiguous_borders = borders ? borders->contiguous() : Tensor();
  cuda::document_spans(borders ? contiguous_borders.const_data_ptr<std::int32_t>() : nullptr,
                       borders ? contiguous_borders.numel() : 0, k.size(0), k.size(2), int32_data(spans),
                       launch.stream());
  launch.check();
  return spans;
}

Tensor cut_into_chunks(const Tensor& k, const Borders& borders, std::int64_t chunk) {
  const cuda::Launch launch(k, "attention");
  const std::int64_t all = k.size(0) * k.size(2);
  const Tensor spans = spans_of(k, borders), pieces = at::empty({all + 1}, spans.options());
  cuda::cut_documents(int32_data(spans), all, chunk, int32_data(pieces), launch.stream());
  launch.check();
  return pieces;
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
        spans_(spans_of(in.k, in.borders)),
        query_at_(who_stands_where(in.query_positions)),
        key_at_(who_stands_where(in.key_positions)),
        shape_{launch_.element(in.q), in.rows(),    in.tokens(), in.k.size(2), in.heads(), in.k.size(1),
               in.q.size(3),          in.v.size(3), in.scale,    shorter_than, in.mask} {}

  // `output` and `logsumexp` have the layout of empty_heads and empty_logsumexp.
  void forward(const Tensor& output, const Tensor& logsumexp) const {
    cuda::direct_forward(shape_, int32_data(spans_), places(), heads_of(in_.q), heads_of(in_.k),
                         heads_of(in_.v), heads_of(output), logsumexp.mutable_data_ptr(), launch_.stream());
    launch_.check();
  }

  void backward(const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                const Gradients& to) const {
    const Tensor products =
        at::empty({in_.rows() * in_.tokens(), in_.heads()}, in_.q.options().dtype(sum_dtype(in_.q)));
    const Tensor contiguous = logsumexp.contiguous();
    cuda::direct_backward(shape_, int32_data(spans_), places(), heads_of(grad), heads_of(in_.q),
                          heads_of(in_.k), heads_of(in_.v), heads_of(output), contiguous.const_data_ptr(),
                          heads_of(std::get<0>(to)), heads_of(std::get<1>(to)), heads_of(std::get<2>(to)),
                          products.mutable_data_ptr(), launch_.stream());
    launch_.check();
  }

 private:
  // By position, over all rows; undefined without positions.
  Tensor who_stands_where(const Borders& positions) const {
    if (!positions) return {};
    const std::int64_t all = in_.k.size(2);
    const Tensor of_token = positions->contiguous(), at = at::empty({in_.rows() * all}, of_token.options());
    cuda::who_stands_where(of_token.const_data_ptr<std::int32_t>(), in_.rows(), of_token.size(1), all,
                           int32_data(at), launch_.stream());
    launch_.check();
    return at;
  }
  cuda::Places places() const {
    const auto of = [](const Borders& x) { return x ? x->const_data_ptr<std::int32_t>() : nullptr; };
    const auto at = [](const Tensor& x) { return x.defined() ? x.const_data_ptr<std::int32_t>() : nullptr; };
    return {of(in_.query_positions), of(in_.key_positions), at(query_at_), at(key_at_)};
  }

  const Operands& in_;
  const cuda::Launch launch_;
  const Tensor spans_, query_at_, key_at_;
  const cuda::DirectShape shape_;
};

// --- sinks ---

// `output` and `logsumexp` have the layout of empty_heads and empty_logsumexp.
void add_sinks(const Tensor& sinks, const Tensor& output, const Tensor& logsumexp) {
  const cuda::Launch launch(output, "attention");
  const Tensor of_type = sinks.to(output.scalar_type()).contiguous();
  cuda::add_sinks(launch.element(output), logsumexp.numel(), logsumexp.size(2), sinks.numel(), output.size(3),
                  of_type.const_data_ptr(), output.mutable_data_ptr(), logsumexp.mutable_data_ptr(),
                  launch.stream());
  launch.check();
}

// --- the ops ---

// Logs once which kernel computes a case, on rank 0: the GPUs of a run are of one kind.
void log_choice(const AttentionCase& attention_case) {
  static std::mutex mutex;
  static std::vector<AttentionCase> logged;
  const std::lock_guard lock(mutex);
  if (std::find(logged.begin(), logged.end(), attention_case) != logged.end()) return;
  logged.push_back(attention_case);
  log_info_on_rank_0(attention_kernel_in_words(attention_case));
}

// Takes the deterministic setting from LibTorch.
AttentionCase attention_case(const Tensor& q, const Tensor& v, const Borders& borders,
                             const AttentionMask& mask, bool positions, std::int64_t query_runs) {
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
          .positions = positions,
          .query_runs = query_runs,
          .mask = mask,
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .capability_major = at::cuda::getDeviceProperties(q.device().index())->major,
          .cudnn = cudnn,
          .cudnn_graphs = has_cudnn_graphs(),
          .requested = requested_attention_kernel()};
}

struct Call {
  Operands in;
  AttentionKernel kernel;
  // Note [Short documents] in attention_library.cpp.
  bool needs_short_documents() const { return in.borders && leaves_short_documents(kernel); }
};
Call call_of(const Tensor& q, const Tensor& k, const Tensor& v, const Borders& documents, double scale,
             const AttentionMask& requested_mask, const Borders& query_positions,
             const Borders& key_positions, std::int64_t query_runs) {
  RONDO_ASSERT(q.size(2) == k.size(2) || query_positions, "some of the queries of a row say which");
  AttentionMask mask = effective_mask(requested_mask, k.size(2));
  const AttentionCase now =
      attention_case(q, v, documents, mask, query_positions || key_positions, key_positions ? 0 : query_runs);
  log_choice(now);
  Borders borders = documents;
  if (mask.chunk > 0) borders = cut_into_chunks(k, documents, std::exchange(mask.chunk, 0));
  const auto plain = [](const Borders& x) { return x ? Borders(x->contiguous()) : x; };
  return {{readable(q), readable(k), readable(v), borders, scale, mask, plain(query_positions),
           plain(key_positions), query_runs},
          choose_attention(now)};
}

Outputs forward_by(AttentionKernel kernel, const Operands& in) {
  if (kernel != AttentionKernel::direct) return library_attention(kernel, in);
  const Outputs results{empty_heads(in.q, in.v.size(3)), empty_logsumexp(in.q)};
  Direct(in, 0).forward(std::get<0>(results), std::get<1>(results));
  return results;
}

Outputs forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Borders& borders, double scale,
                     std::int64_t left, std::int64_t right, std::int64_t chunk,
                     const std::optional<Tensor>& sinks, const Borders& query_positions,
                     const Borders& key_positions, std::int64_t query_runs) {
  const Call forward =
      call_of(q, k, v, borders, scale, {left, right, chunk}, query_positions, key_positions, query_runs);
  const Operands& in = forward.in;
  const auto [computed, scores] = forward_by(forward.kernel, in);
  const Tensor output = as_planned(computed);
  // view: strides of dimensions of size 1 become those of the plan.
  const Tensor logsumexp =
      scores.is_contiguous() ? scores.view(scores.sizes()) : empty_logsumexp(q).copy_(scores);
  if (forward.needs_short_documents())
    Direct(in, short_document(in.rows(), in.keys())).forward(output, logsumexp);
  if (sinks) add_sinks(*sinks, output, logsumexp);
  return {output, logsumexp};
}

Gradients backward_by(AttentionKernel kernel, const Operands& in, const Tensor& grad, const Tensor& output,
                      const Tensor& logsumexp) {
  if (kernel != AttentionKernel::direct)
    return library_attention_backward(kernel, in, grad, output, logsumexp);
  const Gradients results{empty_heads(in.q), empty_heads(in.k), empty_heads(in.v)};
  Direct(in, 0).backward(grad, output, logsumexp, results);
  return results;
}

Gradients backward_cuda(const Tensor& grad_of_output, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& saved_output, const Tensor& logsumexp, const Borders& borders,
                        double scale, std::int64_t left, std::int64_t right, std::int64_t chunk,
                        const Borders& query_positions, const Borders& key_positions,
                        std::int64_t query_runs) {
  const Call backward =
      call_of(q, k, v, borders, scale, {left, right, chunk}, query_positions, key_positions, query_runs);
  const Operands& in = backward.in;
  const Tensor grad = readable(grad_of_output), output = as_planned(saved_output);
  const auto [grad_q, grad_k, grad_v] = backward_by(backward.kernel, in, grad, output, logsumexp);
  const Gradients results{as_planned(grad_q), as_planned(grad_k), as_planned(grad_v)};
  if (backward.needs_short_documents())
    Direct(in, short_document(in.rows(), in.keys())).backward(grad, output, logsumexp, results);
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("attention", &forward_cuda);
  m.impl("attention_backward", &backward_cuda);
}

}  // namespace rondo

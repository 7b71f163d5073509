// Attention with masks as one dispatcher op, so that a traced graph does not depend on the device.
//
//   rondo::attention(q, k, v, document_borders?, scale, left, right, chunk, sinks?,
//                    query_positions?, key_positions?, query_runs) -> (output, logsumexp)
//   rondo::attention_backward(grad, q, k, v, output, logsumexp, document_borders?, scale, left,
//                             right, chunk, query_positions?, key_positions?, query_runs)
//       -> (grad_q, grad_k, grad_v)
//   rondo::attention_sinks_backward(grad, output, logsumexp, sinks) -> grad_sinks
//
//   output[t] = sum over s of exp(scale * q[t] k[s] - logsumexp[t]) v[s]
//   logsumexp[t] = log(exp(sink) + sum over s of exp(scale * q[t] k[s]))
//
// The sums are over the keys s that t sees: attention_mask.h, from left, right, chunk and
// documents. A sink is a logit per head that takes part in the softmax and has no value (Xiao et
// al. 2023, arXiv 2309.17453; gpt-oss). The backward needs only logsumexp of it. A token that sees
// no key has zero output. Its logsumexp is the sink or, without one, +infinity: then all its
// weights are zero, and it adds nothing to any gradient.
//
// q is [B, H, T, D], k [B, G, S, D] and v [B, G, S, V] with H % G == 0 (grouped queries, Ainslie et
// al. 2023, arXiv 2305.13245). output is [B, H, T, V], logsumexp [B, H, T] in f32, or f64 for f64.
// All are laid out [B, T, heads, ...].
//
// CPU: attention_cpu.h. CUDA: the kernel that attention_choice.h selects.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/attention/attention_mask.h"

namespace rondo {

struct AttentionOperands {
  at::Tensor q, k, v;
  // int32 cu_seqlens over the flattened positions of all rows, B * S. Every start of a row is a
  // border; the tail repeats B * S. Absent: each row is one document.
  std::optional<at::Tensor> document_borders = std::nullopt;
  double scale = 1;
  AttentionMask mask = {};
  std::optional<at::Tensor> sinks = std::nullopt;  // [H], of q's dtype
  // int32 [B, T] and [B, S], less than S: the positions of queries and keys in their row. Keys have
  // different positions. Absent: 0, 1, 2, ...
  std::optional<at::Tensor> query_positions = std::nullopt, key_positions = std::nullopt;
  // Number of runs of consecutive positions that the queries of a row form, ascending and of equal
  // lengths. No result depends on it, but flash takes one or two runs. 0: unknown.
  std::int64_t query_runs = 0;
};

// Differentiable by autograd.
at::Tensor attention(const AttentionOperands& operands);

// --- for kernels and shape rules, without autograd ---
//
// Heads are laid out [B, T, heads, width] in memory.

// Returns a tensor with as many heads as `like_BHTD`, of the same or another width.
at::Tensor empty_heads(const at::Tensor& like_BHTD, std::int64_t width);
at::Tensor empty_heads(const at::Tensor& like_BHTD);
// Returns a contiguous tensor [B, H, T] of f32, or f64 for f64: the layout of cuDNN and flash.
at::Tensor empty_logsumexp(const at::Tensor& q_BHTD);

}  // namespace rondo

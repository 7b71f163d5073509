// Attention with masks as one dispatcher op, so that a traced graph does not depend on the device.
//
//   rondo::attention(q, k, v, document_borders?, scale, left, right, chunk, sinks?, query_positions?,
//                    key_positions?, query_runs) -> (output, logsumexp)
//   rondo::attention_backward(grad, q, k, v, output, logsumexp, document_borders?, scale, left, right, chunk,
//                             query_positions?, key_positions?, query_runs) -> (grad_q, grad_k, grad_v)
//   rondo::attention_sinks_backward(grad, output, logsumexp, sinks) -> grad_sinks
//
//   output[t] = sum over s of exp(scale * q[t] k[s] - logsumexp[t]) v[s]
//   logsumexp[t] = log(exp(sink) + sum over s of exp(scale * q[t] k[s]))
//
// over the keys s that t sees: attention_mask.h, from left, right, chunk and documents. A sink is a logit of
// a head that takes part in the softmax and has no value (Xiao et al. 2023, arXiv 2309.17453; gpt-oss): the
// backward needs no more of it than logsumexp. A token that sees no key has zero output, and its logsumexp is
// the sink or, without one, +infinity, of which every weight is zero: nothing of it reaches a gradient.
//
// q [B, H, T, D]; k [B, G, S, D] and v [B, G, S, V] with H % G == 0 (grouped queries, Ainslie et al. 2023,
// arXiv 2305.13245); output [B, H, T, V], logsumexp [B, H, T], f32, or f64 for f64; all laid out
// [B, T, heads, ...].
//
// CPU: attention_cpu.h. CUDA: the kernel that attention_choice.h names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/attention/attention_mask.h"

namespace rondo {

struct AttentionOperands {
  at::Tensor q, k, v;
  // int32 cu_seqlens over the flattened positions of all rows, B * S; every row start is a border; the tail
  // repeats B * S. Absent: each row is one document.
  std::optional<at::Tensor> document_borders = std::nullopt;
  double scale = 1;
  AttentionMask mask = {};
  std::optional<at::Tensor> sinks = std::nullopt;  // [H], of q's dtype
  // int32 [B, T] and [B, S], below S: where in the row a query and a key stand; of keys one at each place.
  // Absent: 0, 1, 2, ...
  std::optional<at::Tensor> query_positions = std::nullopt, key_positions = std::nullopt;
  // The queries of a row are so many runs of neighbouring positions, of equal lengths and ascending: no
  // result depends on it, but flash takes one or two. 0: nobody knows.
  std::int64_t query_runs = 0;
};

// With autograd.
at::Tensor attention(const AttentionOperands& operands);

// --- for kernels and shape rules, without autograd ---
//
// Heads lie [B, T, heads, width] in memory.

// For as many heads as `like` has, of its width or another.
at::Tensor empty_heads(const at::Tensor& like_BHTD, std::int64_t width);
at::Tensor empty_heads(const at::Tensor& like_BHTD);
// In f32, f64 for f64: [B, T, H] seen as [B, H, T].
at::Tensor empty_logsumexp(const at::Tensor& q_BHTD);

}  // namespace rondo

// Causal attention as one dispatcher op, so that a traced graph does not depend on the device.
//
//   rondo::attention(q, k, v, document_borders?, scale) -> (output, logsumexp)
//   rondo::attention_backward(grad, q, k, v, output, logsumexp, document_borders?, scale)
//     -> (grad_q, grad_k, grad_v)
//
//   output[t] = sum over s of exp(scale * q[t] k[s] - logsumexp[t]) v[s]
//   logsumexp[t] = log(sum over s of exp(scale * q[t] k[s])), over the tokens s that token t sees: up to
//   itself
//
// q [B, H, T, D]; k [B, G, T, D] and v [B, G, T, V] with H % G == 0 (grouped queries, Ainslie et al. 2023,
// arXiv 2305.13245); output [B, H, T, V], logsumexp f32 [B, H, T]; all laid out [B, T, heads, ...].
//
// With document_borders (int32 cu_seqlens over the flattened B * T tokens; every row start is a border; the
// tail repeats B * T), a token sees only its own document.
//
// CPU: ATen's flash attention (Dao 2023, arXiv 2307.08691), document by document. CUDA: the kernel that
// attention_choice.h names, for f32, bf16 and f64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace rondo {

// With autograd.
at::Tensor causal_attention(const at::Tensor& q_BHTD, const at::Tensor& k_BGTD, const at::Tensor& v_BGTD,
                            const std::optional<at::Tensor>& document_borders_N, double scale);

// --- for kernels of every device and shape rules: how heads lie, [B, T, heads, width] in memory. No autograd
// ---

// For as many heads as `like` has, of its width or another.
at::Tensor empty_heads(const at::Tensor& like_BHTD, std::int64_t width);
at::Tensor empty_heads(const at::Tensor& like_BHTD);
// fp32, [B, T, H] seen as [B, H, T].
at::Tensor empty_logsumexp(const at::Tensor& q_BHTD);

// Each group's heads, as often as queries have heads of it; and the sum over them, for gradients.
at::Tensor repeat_groups(const at::Tensor& x_BGTD, std::int64_t heads);
at::Tensor sum_groups(const at::Tensor& grad_BHTD, const at::Tensor& like_BGTD);

// Zeros behind each head's elements change no product; kernels that want equal widths get them so.
at::Tensor widen(const at::Tensor& x_BHTD, std::int64_t width);
at::Tensor narrow_to(const at::Tensor& x_BHTD, std::int64_t width);

}  // namespace rondo

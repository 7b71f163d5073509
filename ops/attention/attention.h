// Causal attention as one dispatcher op, so that a traced graph does not depend on the device.
//
//   rondo::attention(q, k, v, document_borders?, scale) -> (output, logsumexp)
//   rondo::attention_backward(grad, q, k, v, output, logsumexp, document_borders?, scale) -> (grad_q, grad_k,
//   grad_v)
//
// q [B, H, T, D]; k [B, G, T, D] and v [B, G, T, V] with H % G == 0 (grouped queries); output [B, H, T, V],
// logsumexp fp32 [B, H, T]; all laid out [B, T, heads, ...]. With document_borders (int32 cu_seqlens over the flattened B * T tokens; every row start is a
// border; the tail repeats B * T), a token sees only its own document. CPU: ATen's flash attention, document
// by document.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace rondo {

at::Tensor causal_attention(const at::Tensor& q_BHTD, const at::Tensor& k_BGTD, const at::Tensor& v_BGTD,
                            const std::optional<at::Tensor>& document_borders_N, double scale);

}  // namespace rondo

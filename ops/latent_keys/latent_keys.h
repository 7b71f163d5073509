// The keys of latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1) as one op:
//
//   rondo::latent_keys(kv, rotated, plain) -> k
//   rondo::latent_keys_backward(grad_k, grad_v, plain) -> grad_kv, grad_rotated
//
// kv [B, S, H, P + V] has each head's plain part of the key, P = `plain` elements, and its value.
// rotated [B, S, 1, R] is the rotated part of all heads' keys. k [B, S, H, P + R] has kv[..., :P]
// and rotated. The backward writes the gradients of k's plain part and of the value, grad_v [B, S,
// H, V], into grad_kv [B, S, H, P + V], and sums the gradient of the rotated part over the heads
// into grad_rotated [B, S, 1, R].
//
// Operands are f32, bf16 or, on the CPU, f64; they may be strided. Results are contiguous. The sum
// is in f32, or f64 for f64, and is rounded once. It adds the sums of 16 consecutive heads each, in
// order, to the sum of the heads after them. These are the bits of at::sum on the CPU for rows of
// whole vectors (R a multiple of 64) and up to 256 heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace rondo {

// Returns k and the values, a view of kv, with autograd. One backward computes the gradients of
// both.
struct KeysAndValues {
  at::Tensor k, v;
};
KeysAndValues latent_keys_of(const at::Tensor& kv, const at::Tensor& rotated, std::int64_t plain);

// Check the operands and allocate the results, for the kernels of every device and the shape rule.
// Throw Error(internal) for operands other than described above.
at::Tensor latent_keys_result(const at::Tensor& kv, const at::Tensor& rotated, std::int64_t plain);
std::tuple<at::Tensor, at::Tensor> latent_keys_gradients(const at::Tensor& grad_k, const at::Tensor& grad_v,
                                                         std::int64_t plain);

}  // namespace rondo

// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) as one op:
//
//   rondo::rope(x, cos, sin, interleaved, inverse) -> y                      with autograd
//
// x [B, T, H, D] is f32, bf16 or, on the CPU, f64; its heads may have gaps between them. cos and
// sin [1 or B, T, 1, K / 2], K <= D, are f32, or f64 for an x of f64. y is contiguous, with the
// dtype and the sizes of x. The last K elements of a head are rotated, and the D - K before them
// are copied. Let r and s be the rotated elements of x and y. Pair i of a head is rotated by the
// angle of cos[i] and sin[i]:
//
//   (first, second) -> (first * cos - second * sin, second * cos + first * sin)
//
// Pair i is (r[i], r[K / 2 + i]) on both sides. With `interleaved` it is (r[2i], r[2i + 1]) in x
// and (s[i], s[K / 2 + i]) in y. `inverse` rotates back and reverses the layout of the pairs: with
// `interleaved` they are neighbours in y. So the backward is rope of the gradient with the other
// `inverse`; cos and sin have no gradient. All arithmetic is in the dtype of cos and sin, products
// and sums one by one, and y is rounded once: the bits of ATen's ops. y may
// have the memory of a contiguous x; then the D - K elements stay as they are.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

at::Tensor rope_of(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved);

// Checks the operands and allocates y, for the kernels of every device and the shape rule. Throws
// Error(internal) for operands other than described above.
at::Tensor rope_result(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace rondo

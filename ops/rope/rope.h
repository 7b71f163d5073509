// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) as one op:
//
//   rondo::rope(x, cos, sin, interleaved, inverse) -> y                      with autograd
//
// x [B, T, H, D] is f32, bf16 or, on the CPU, f64; D is even, and heads may be apart. cos and sin
// [1 or B, T, 1, D / 2] are f32, or f64 if x is f64. y has the dtype and sizes of x and is
// contiguous. Pair i of a head is rotated by the angle of cos[i] and sin[i]:
//
//   (first, second) -> (first * cos - second * sin, second * cos + first * sin)
//
// Pair i is (x[i], x[D / 2 + i]) in x and y. If `interleaved`, it is (x[2i], x[2i + 1]) in x and
// (y[i], y[D / 2 + i]) in y. `inverse` rotates back, with the two layouts exchanged: then y is the
// interleaved one. So the backward of rope is rope of the gradient with the other `inverse`. The op
// is not differentiable, because passes insert it into graphs that already have a backward. All
// arithmetic is in the dtype of cos and sin, products and sums one by one, and y is rounded once:
// the bits of ATen's ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Checks the operands and allocates y, for the kernels of every device and the shape rule. Throws
// Error(internal) for operands other than described above.
at::Tensor rope_result(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace rondo

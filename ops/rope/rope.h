// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) as one op:
//
//   rondo::rope(x, cos, sin, interleaved, inverse) -> y
//
// x [B, T, H, D] is f32, bf16 or, on the CPU, f64, D even, and its heads may lie apart; cos and sin [1 or B,
// T, 1, D / 2] are f32, f64 beside an x of f64; y has the dtype and sizes of x and is contiguous. Pair i of a
// head is rotated by the angle of cos[i] and sin[i]:
//
//   (first, second) -> (first * cos - second * sin, second * cos + first * sin)
//
// Pair i is (x[i], x[D / 2 + i]) on both sides; if `interleaved`, it is (x[2i], x[2i + 1]) in x and (y[i],
// y[D / 2 + i]) in y. `inverse` rotates back, and pairs then lie the other way round: interleaved in y. So
// the backward of rope is rope of the gradient with the other `inverse`; the op has no formula for autograd,
// since passes put it into graphs that have their backward already. All arithmetic is in
// the dtype of cos and sin, products and sums one by one, and y is rounded once: the bits of ATen's ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// What kernels of every device, and the shape rule, begin with: operands checked, y allocated. Operands that
// are not as above end in Error(internal).
at::Tensor rope_result(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace rondo

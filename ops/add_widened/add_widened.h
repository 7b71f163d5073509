// The addition of a tensor to a sum of a wider dtype as one op, for accumulated gradients:
//
//   rondo::add_widened(sum, x) -> sum + x
//   rondo::add_widened_(sum!, x) -> sum
//
// sum is f32, bf16 or, on the CPU, f64; x has its sizes, and its dtype or bf16. Each element is
// added in f32, or in f64 for a sum of f64, and rounded to the dtype of sum: the bits of a cast of
// x and an addition, in one read of each. sum must be contiguous.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Throws Error(internal) unless the operands are as above.
void check_add_widened(const at::Tensor& sum, const at::Tensor& x);

}  // namespace rondo

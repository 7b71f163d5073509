// The sum of the squares of a tensor's elements, exact enough for the norm of any gradient:
//
//   rondo::sum_of_squares(x) -> sum of x[i]^2, f64 []
//
// x is f32 or bf16, of any size. Squares of these are exact in f64, and so is where they are added: the
// result is off by some 1e-16 times log2 of the number of elements at most. Its order (sum_of_squares_math.h)
// is one for each number of elements, so CPU and CUDA give the same bits, whatever the number of threads. No
// formula for autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

at::Tensor sum_of_squares(const at::Tensor& x);

// What kernels of every device, and the shape rule, begin with: x checked, the result allocated. Another
// dtype ends in Error(internal).
at::Tensor sum_of_squares_result(const at::Tensor& x);

}  // namespace rondo

// Sums the squares of tensors' elements, exact enough for the norm of any gradient:
//
//   rondo::sums_of_squares(x_1, ..., x_n) -> sums, f64 [n], with sums[k] = sum over i of x_k[i]^2
//
// Each x is f32, bf16 or, on the CPU, f64, of any size; all are on one device. Squares of f32 and
// bf16 are exact in f64, in which all are added. The relative error of a sum is at most about 1e-16
// times log2 of the number of elements. The order of a sum (sums_of_squares_math.h) depends only on
// the number of elements. So CPU and CUDA give the same bits, for any number of threads and of
// tensors. Not differentiable.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// REQUIRES: at least one tensor.
at::Tensor sums_of_squares(at::TensorList tensors);

// Checks the tensors and allocates the result, for the kernels of every device and the shape rule.
// Throws Error(internal) for other dtypes.
at::Tensor sums_of_squares_result(at::TensorList tensors);

}  // namespace rondo

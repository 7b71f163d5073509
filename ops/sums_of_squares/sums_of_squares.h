// The sums of the squares of tensors' elements, exact enough for the norm of any gradient:
//
//   rondo::sums_of_squares(x_1, ..., x_n) -> sums, f64 [n], with sums[k] = sum over i of x_k[i]^2
//
// Each x is f32, bf16 or, on the CPU, f64, of any size; all lie on one device. Squares of the first two are
// exact in f64, where all are added: a sum is off by some 1e-16 times log2 of the number of elements at most.
// Its order (sums_of_squares_math.h) is one for each number of elements, so CPU and CUDA give the same bits,
// whatever the number of threads and of tensors. No formula for autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// REQUIRES: at least one tensor.
at::Tensor sums_of_squares(at::TensorList tensors);

// What kernels of every device, and the shape rule, begin with: tensors checked, the result allocated.
// Another dtype ends in Error(internal).
at::Tensor sums_of_squares_result(at::TensorList tensors);

}  // namespace rondo

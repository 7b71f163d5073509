// Products of runs of rows with a matrix each (a mixture's experts), as one dispatcher op without a host sync
// on devices: shapes do not depend on how many rows a run has.
//
//   rondo::grouped_mm(a, b, ends)
//     a [N, K], b [E, K, M] -> [N, M]:   rows of run e times b[e]
//     a [K, N], b [N, M]    -> [E, K, M]: columns of run e of a times rows of run e of b
//
// ends int32 [E], not falling, at most N, on a's device: run e is [ends[e - 1], ends[e]). A run may be empty.
// Rows past the last end are zero, and add nothing. a and b have one dtype, and so has the result: any dtype
// with a matrix product on the CPU (one a run), f32, bf16 or f64 on CUDA.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// No autograd. Throws Error(internal) where the runs do not fit the operands.
at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends_E);

// x [N, in] times the transpose of each run's weight: weight [E, out, in] gives [N, out]. With autograd.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends_E);

// The result that kernels of every device and the shape rule begin with: allocated, not written.
at::Tensor grouped_mm_result(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends_E);

}  // namespace rondo

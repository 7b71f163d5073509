// Products of runs of rows with one matrix each (a mixture's experts), as one dispatcher op without
// a host sync on devices. Shapes do not depend on the lengths of the runs.
//
//   rondo::grouped_mm(a, b, ends)
//     a [N, K], b [E, K, M] -> [N, M]:   rows of run e times b[e]
//     a [K, N], b [N, M]    -> [E, K, M]: columns of run e of a times rows of run e of b
//
// ends int32 [E] is non-decreasing, at most N, and on a's device: run e is [ends[e - 1], ends[e]).
// A run may be empty. Rows after the last end are zero in results and add nothing. a, b and the
// result have one dtype: any with a matrix product on the CPU (one product per run), or f32, bf16
// or f64 on CUDA.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Not differentiable. Throws Error(internal) if the runs do not fit the operands.
at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends_E);

// Allocates the uninitialized result, for the kernels of every device and the shape rule.
at::Tensor grouped_mm_result(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends_E);

}  // namespace rondo

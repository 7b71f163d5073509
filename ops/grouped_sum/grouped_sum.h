// A bias for each run of rows (a mixture's experts), and sums of runs of rows, without a host sync
// on devices.
//
//   rondo::grouped_add(x, bias, ends) -> [N, D]: x [N, D]; bias [E, D] is added to the rows of each
//     run and rounded once. Rows after the last end are those of x.
//   rondo::grouped_sum(x, ends) -> [E, D]: the sum of each run's rows of x [N, D], in f32, or f64
//     for f64, rounded once. Rows after the last end add nothing; an empty run is zero.
//
// ends int32 [E] is non-decreasing, at most N, and on x's device: run e is [ends[e - 1], ends[e]).
// x, bias and the result have one dtype: f32, bf16 or, on the CPU, f64. Results are contiguous. The
// order of sums is fixed (grouped_sum_math.h), so all devices give the same bits.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Differentiable in x and bias. Throws Error(internal) if the runs do not fit the operands.
at::Tensor grouped_add(const at::Tensor& x, const at::Tensor& bias_ED, const at::Tensor& ends_E);
// Not differentiable.
at::Tensor grouped_sum(const at::Tensor& x, const at::Tensor& ends_E);

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
at::Tensor grouped_add_result(const at::Tensor& x, const at::Tensor& bias_ED, const at::Tensor& ends_E);
at::Tensor grouped_sum_result(const at::Tensor& x, const at::Tensor& ends_E);

}  // namespace rondo

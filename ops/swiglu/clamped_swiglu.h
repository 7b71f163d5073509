// The gated unit of gpt-oss (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025) as one op for
// each direction:
//
//   rondo::clamped_swiglu(gate_up, count, limit, slope) -> (up + 1) * gate * sigmoid(slope * gate)
//     with gate at most `limit`, and up in [-limit, limit]                       differentiable
//   rondo::clamped_swiglu_backward(grad, gate_up, count, limit, slope) -> grad_gate_up [N, 2 D]
//
// gate_up [N, 2 D] has a gate and its up side by side; the result and grad are [N, D]. Rows from
// `count` on (int32 []) are never read and are zero in results. A value that is clamped has no
// gradient; the limit itself has. Operands have one dtype, f32, bf16 or, on the CPU, f64. Results
// are contiguous. All arithmetic is f32, or f64 for f64, and results are rounded once.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

at::Tensor clamped_swiglu(const at::Tensor& gate_up, const at::Tensor& count, double limit, double slope);

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
// Throw Error(internal) for operands other than described above.
at::Tensor clamped_swiglu_result(const at::Tensor& gate_up);
at::Tensor clamped_swiglu_gradient(const at::Tensor& grad, const at::Tensor& gate_up);

}  // namespace rondo

// The gated unit of SwiGLU (Shazeer 2020, arXiv 2002.05202) as one op for each direction:
//
//   rondo::swiglu(gate, up) -> gate * sigmoid(gate) * up                      differentiable
//   rondo::swiglu_backward(grad, gate, up) -> (grad_gate, grad_up)
//   rondo::swiglu_backward_joined(grad, gate, up) -> grad_gate_up: both concatenated, [..., 2 D]
//
//   rondo::swiglu_rows(gate, up, count) -> y                                  differentiable
//   rondo::swiglu_rows_backward(grad, gate, up, count) -> (grad_gate, grad_up)
//     the same for matrices whose rows from `count` on (int32 []) are never read and are zero in
//     results: rows of experts, of which a rank has more than tokens
//
// Operands [..., D] have one size and one dtype, f32, bf16 or, on the CPU, f64, and their rows may
// be apart. Results are contiguous. All arithmetic is f32, or f64 for f64, and results are rounded
// once. On the CPU the exponential is Rondo's (ops/kernel/exponential.h), so that an element's bits
// do not depend on its position, unlike those of aten::silu.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace rondo {

// Calls rondo::swiglu, or rondo::swiglu_rows if there is a count.
at::Tensor swiglu_of(const at::Tensor& gate, const at::Tensor& up,
                     const std::optional<at::Tensor>& count = {});

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
// Throw Error(internal) for operands other than described above.
at::Tensor swiglu_result(const at::Tensor& gate, const at::Tensor& up);
std::tuple<at::Tensor, at::Tensor> swiglu_gradients(const at::Tensor& grad, const at::Tensor& gate,
                                                    const at::Tensor& up);
at::Tensor swiglu_joined_gradient(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

}  // namespace rondo

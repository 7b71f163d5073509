// RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) as one op for each direction, for rows x of
// width D:
//
//   rondo::rms_norm(x, weight, eps) -> (y, inverse_rms)            differentiable
//   rondo::rms_norm_backward(grad, x, weight, inverse_rms) -> (grad_x, grad_weight)
//   rondo::add_rms_norm(x, residual, weight, eps)
//     -> (sum, y, inverse_rms): the norm of sum = x + residual
//   rondo::add_rms_norm_backward(grad, x, weight, inverse_rms, grad_sum)
//     -> (grad_x + grad_sum, grad_weight)
//
//   inverse_rms = 1 / sqrt(mean(x^2) + eps)                         dtype of sums, [..., 1]
//   y = x * inverse_rms * weight                                    wider dtype of x and weight
//   grad_x = inverse_rms * g - x * inverse_rms^3 * mean(g * x)      dtype of x; g = grad * weight
//   grad_weight = sum over rows of grad * x * inverse_rms           dtype of sums, [D]
//
// x [..., D] and weight [D] are f32 or bf16 each, or on the CPU both f64. grad has y's dtype;
// residual, sum and grad_sum have the dtype and sizes of x. Rows of x may be apart; results are
// contiguous. Sums and all arithmetic are f32, or f64 for f64, and results are rounded once. The
// ops with a sum give the bits of separate norm and addition: the rounded sum is normalized, and
// the rounded grad_x is added. The order of additions for grad_weight depends only on the number of
// rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rondo {

// Returns only y.
at::Tensor rms_norm_of(const at::Tensor& x, const at::Tensor& weight, double eps);

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
// Throw Error(internal) for operands other than described above.
std::tuple<at::Tensor, at::Tensor> rms_norm_results(const at::Tensor& x, const at::Tensor& weight);
std::tuple<at::Tensor, at::Tensor> rms_norm_gradients(const at::Tensor& grad, const at::Tensor& x,
                                                      const at::Tensor& weight,
                                                      const at::Tensor& inverse_rms);
std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm_results(const at::Tensor& x,
                                                                    const at::Tensor& residual,
                                                                    const at::Tensor& weight);
std::tuple<at::Tensor, at::Tensor> add_rms_norm_gradients(const at::Tensor& grad, const at::Tensor& x,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& inverse_rms,
                                                          const at::Tensor& grad_sum);

}  // namespace rondo

// RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) as one op for each direction, for rows x of width D:
//
//   rondo::rms_norm(x, weight, eps) -> (y, inverse_rms)            with autograd
//   rondo::rms_norm_backward(grad, x, weight, inverse_rms) -> (grad_x, grad_weight)
//   rondo::add_rms_norm(x, residual, weight, eps) -> (sum, y, inverse_rms): the norm of sum = x + residual
//   rondo::add_rms_norm_backward(grad, x, weight, inverse_rms, grad_sum) -> (grad_x + grad_sum, grad_weight)
//
//   inverse_rms = 1 / sqrt(mean(x^2) + eps)                          sums, [..., 1]
//   y = x * inverse_rms * weight                                     of the wider dtype of x and weight
//   grad_x = inverse_rms * g - x * inverse_rms^3 * mean(g * x)       of x's dtype, where g = grad * weight
//   grad_weight = sum over rows of grad * x * inverse_rms            sums, [D]
//
// x [..., D] and weight [D] are f32 or bf16 each, or on the CPU both f64; grad is of y's dtype, residual, sum
// and grad_sum are of x's dtype and sizes; rows of x may lie apart, results are contiguous. Sums and all
// arithmetic are f32, f64 for an x of f64, and results are rounded once. The ops with a sum give the bits of
// the norm and the sum apart: what is normalized is the rounded sum, what is added the rounded grad_x.
// grad_weight is added up in an order that depends on the number of rows alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rondo {

// y alone.
at::Tensor rms_norm_of(const at::Tensor& x, const at::Tensor& weight, double eps);

// What kernels of every device, and the shape rules, begin with: operands checked, results allocated.
// Operands that are not as above end in Error(internal).
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

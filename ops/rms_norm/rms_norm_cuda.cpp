#include "ops/rms_norm/rms_norm_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/kernel/rows.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rms_norm/rms_norm_math.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// `x` has two dimensions, and weight is contiguous.
cuda::RmsNormRows operands(const cuda::Launch& launch, const Tensor& x, const Tensor& weight) {
  RONDO_ASSERT(x.size(1) <= rms_norm::kWidestRow, "rms_norm on CUDA requires rows that fit into registers");
  return {x.size(0),          x.size(1),   launch.element(x),      launch.element(weight),
          x.const_data_ptr(), x.stride(0), weight.const_data_ptr()};
}

// Normalizes x, or x + residual, which is written to `sum`. Both are contiguous, or both undefined.
void normalize(const cuda::Launch& launch, const Tensor& x_in, const Tensor& residual, const Tensor& sum,
               const Tensor& weight_in, double eps, const Tensor& y, const Tensor& inverse_rms) {
  if (x_in.numel() == 0) return;
  const Tensor x = rows_of(x_in), weight = weight_in.contiguous();
  cuda::rms_norm(operands(launch, x, weight), residual.defined() ? residual.const_data_ptr() : nullptr,
                 sum.defined() ? sum.mutable_data_ptr() : nullptr, static_cast<float>(eps),
                 y.mutable_data_ptr(), inverse_rms.mutable_data_ptr<float>(), launch.stream());
  launch.check();
}

std::tuple<Tensor, Tensor> rms_norm_cuda(const Tensor& x, const Tensor& weight, double eps) {
  const cuda::Launch launch(x, "rms_norm");
  const auto [y, inverse_rms] = rms_norm_results(x, weight);
  normalize(launch, x, {}, {}, weight, eps, y, inverse_rms);
  return {y, inverse_rms};
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm_cuda(const Tensor& x, const Tensor& residual,
                                                     const Tensor& weight, double eps) {
  const cuda::Launch launch(x, "add_rms_norm");
  const auto [sum, y, inverse_rms] = add_rms_norm_results(x, residual, weight);
  normalize(launch, x, residual.contiguous(), sum, weight, eps, y, inverse_rms);
  return {sum, y, inverse_rms};
}

// grad_sum is contiguous, or undefined.
void write_gradients(const cuda::Launch& launch, const Tensor& grad_in, const Tensor& x_in,
                     const Tensor& weight_in, const Tensor& inverse_in, const Tensor& grad_sum,
                     const Tensor& grad_x, const Tensor& grad_weight) {
  if (x_in.numel() == 0) {
    grad_weight.zero_();
    return;
  }
  const Tensor grad = rows_of(grad_in), x = rows_of(x_in);
  const Tensor weight = weight_in.contiguous(), inverse_rms = inverse_in.contiguous();
  const Tensor parts =
      at::empty({cuda::rms_norm_parts(x.size(0), x.size(1)), x.size(1)}, grad_weight.options());
  cuda::rms_norm_backward(
      operands(launch, x, weight), grad.const_data_ptr(), grad.stride(0), inverse_rms.const_data_ptr<float>(),
      grad_sum.defined() ? grad_sum.const_data_ptr() : nullptr, grad_x.mutable_data_ptr(),
      parts.mutable_data_ptr<float>(), grad_weight.mutable_data_ptr<float>(), launch.stream());
  launch.check();
}

std::tuple<Tensor, Tensor> rms_norm_backward_cuda(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                  const Tensor& inverse_rms) {
  const cuda::Launch launch(x, "rms_norm_backward");
  const auto [grad_x, grad_weight] = rms_norm_gradients(grad, x, weight, inverse_rms);
  write_gradients(launch, grad, x, weight, inverse_rms, {}, grad_x, grad_weight);
  return {grad_x, grad_weight};
}

std::tuple<Tensor, Tensor> add_rms_norm_backward_cuda(const Tensor& grad, const Tensor& x,
                                                      const Tensor& weight, const Tensor& inverse_rms,
                                                      const Tensor& grad_sum) {
  const cuda::Launch launch(x, "add_rms_norm_backward");
  const auto [grad_x, grad_weight] = add_rms_norm_gradients(grad, x, weight, inverse_rms, grad_sum);
  write_gradients(launch, grad, x, weight, inverse_rms, grad_sum.contiguous(), grad_x, grad_weight);
  return {grad_x, grad_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("rms_norm", &rms_norm_cuda);
  m.impl("rms_norm_backward", &rms_norm_backward_cuda);
  m.impl("add_rms_norm", &add_rms_norm_cuda);
  m.impl("add_rms_norm_backward", &add_rms_norm_backward_cuda);
}

}  // namespace rondo

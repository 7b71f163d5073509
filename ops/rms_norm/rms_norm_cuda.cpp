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

// `x` are rows, and weight is contiguous.
cuda::RmsNormRows operands(const cuda::Launch& launch, const Tensor& x, const Tensor& weight) {
  RONDO_ASSERT(x.size(1) <= rms_norm::kWidestRow, "rms_norm on CUDA is for rows that fit into registers");
  return {x.size(0),          x.size(1),   launch.element(x),      launch.element(weight),
          x.const_data_ptr(), x.stride(0), weight.const_data_ptr()};
}

std::tuple<Tensor, Tensor> rms_norm_cuda(const Tensor& x_in, const Tensor& weight_in, double eps) {
  const cuda::Launch launch(x_in, "rms_norm");
  const auto [y, inverse_rms] = rms_norm_results(x_in, weight_in);
  if (x_in.numel() == 0) return {y, inverse_rms};
  const Tensor x = rows_of(x_in), weight = weight_in.contiguous();
  cuda::rms_norm(operands(launch, x, weight), static_cast<float>(eps), y.mutable_data_ptr(),
                 inverse_rms.mutable_data_ptr<float>(), launch.stream());
  launch.check();
  return {y, inverse_rms};
}

std::tuple<Tensor, Tensor> rms_norm_backward_cuda(const Tensor& grad_in, const Tensor& x_in,
                                                  const Tensor& weight_in, const Tensor& inverse_in) {
  const cuda::Launch launch(x_in, "rms_norm_backward");
  const auto [grad_x, grad_weight] = rms_norm_gradients(grad_in, x_in, weight_in, inverse_in);
  if (x_in.numel() == 0) return {grad_x, grad_weight.zero_()};
  const Tensor grad = rows_of(grad_in), x = rows_of(x_in);
  const Tensor weight = weight_in.contiguous(), inverse_rms = inverse_in.contiguous();
  const Tensor parts = at::empty({cuda::rms_norm_parts(x.size(0)), x.size(1)}, grad_weight.options());
  cuda::rms_norm_backward(operands(launch, x, weight), grad.const_data_ptr(), grad.stride(0),
                          inverse_rms.const_data_ptr<float>(), grad_x.mutable_data_ptr(),
                          parts.mutable_data_ptr<float>(), grad_weight.mutable_data_ptr<float>(),
                          launch.stream());
  launch.check();
  return {grad_x, grad_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("rms_norm", &rms_norm_cuda);
  m.impl("rms_norm_backward", &rms_norm_backward_cuda);
}

}  // namespace rondo

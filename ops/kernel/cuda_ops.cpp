// The CUDA side of the fused ops of this folder; the kernels are in the .cu files.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/kernel/fused_ops.h"
#include "ops/kernel/launch.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rms_norm/rms_norm_cuda.h"
#include "ops/rope/rope_cuda.h"
#include "ops/swiglu/swiglu_cuda.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using cuda::Launch;

bool is_bf16(const Tensor& x) { return x.scalar_type() == at::kBFloat16; }

// `x` are rows, and weight is contiguous.
cuda::RmsNormRows rms_norm_rows(const Tensor& x, const Tensor& weight) {
  RONDO_ASSERT(x.size(1) <= rms_norm::kWidestRow, "rms_norm on CUDA is for rows that fit into registers");
  return {x.size(0),
          x.size(1),
          is_bf16(x),
          is_bf16(weight),
          x.const_data_ptr(),
          x.stride(0),
          weight.const_data_ptr()};
}

TwoTensors rms_norm_cuda(const Tensor& x_in, const Tensor& weight_in, double eps) {
  const Launch on(x_in, "rms_norm");
  const auto [y, inverse_rms] = rms_norm_results(x_in, weight_in);
  if (x_in.numel() == 0) return {y, inverse_rms};
  const Tensor x = rows_of(x_in), weight = weight_in.contiguous();
  cuda::rms_norm(rms_norm_rows(x, weight), static_cast<float>(eps), y.mutable_data_ptr(),
                 inverse_rms.mutable_data_ptr<float>(), on.stream());
  on.check();
  return {y, inverse_rms};
}

TwoTensors rms_norm_backward_cuda(const Tensor& grad_in, const Tensor& x_in, const Tensor& weight_in,
                                  const Tensor& inverse_in) {
  const Launch on(x_in, "rms_norm_backward");
  const auto [grad_x, grad_weight] = rms_norm_gradients(grad_in, x_in, weight_in, inverse_in);
  if (x_in.numel() == 0) return {grad_x, grad_weight.zero_()};
  const Tensor grad = rows_of(grad_in), x = rows_of(x_in);
  const Tensor weight = weight_in.contiguous(), inverse_rms = inverse_in.contiguous();
  const Tensor parts = at::empty({cuda::rms_norm_parts(x.size(0)), x.size(1)}, grad_weight.options());
  cuda::rms_norm_backward(rms_norm_rows(x, weight), grad.const_data_ptr(), grad.stride(0),
                          inverse_rms.const_data_ptr<float>(), grad_x.mutable_data_ptr(),
                          parts.mutable_data_ptr<float>(), grad_weight.mutable_data_ptr<float>(),
                          on.stream());
  on.check();
  return {grad_x, grad_weight};
}

Tensor swiglu_cuda(const Tensor& gate_in, const Tensor& up_in) {
  const Launch on(gate_in, "swiglu");
  const Tensor y = swiglu_result(gate_in, up_in);
  if (y.numel() == 0) return y;
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  cuda::swiglu(is_bf16(gate), gate.const_data_ptr(), up.const_data_ptr(), y.mutable_data_ptr(), y.numel(),
               on.stream());
  on.check();
  return y;
}

TwoTensors swiglu_backward_cuda(const Tensor& grad_in, const Tensor& gate_in, const Tensor& up_in) {
  const Launch on(gate_in, "swiglu_backward");
  const auto [grad_gate, grad_up] = swiglu_gradients(grad_in, gate_in, up_in);
  if (gate_in.numel() == 0) return {grad_gate, grad_up};
  const Tensor grad = grad_in.contiguous(), gate = gate_in.contiguous(), up = up_in.contiguous();
  cuda::swiglu_backward(is_bf16(gate), grad.const_data_ptr(), gate.const_data_ptr(), up.const_data_ptr(),
                        grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(), gate.numel(), on.stream());
  on.check();
  return {grad_gate, grad_up};
}

Tensor rope_cuda(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved,
                 bool inverse) {
  const Launch on(x_in, "rope");
  const Tensor y = rope_result(x_in, cos_in, sin_in);
  if (y.numel() == 0) return y;
  const Tensor x = x_in.stride(3) == 1 ? x_in : x_in.contiguous();
  const Tensor cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const cuda::RopeHeads heads{x.size(0),   x.size(1),   x.size(2),  x.size(3),       x.stride(0),
                              x.stride(1), x.stride(2), is_bf16(x), cos.size(0) == 1};
  cuda::rope(heads, x.const_data_ptr(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), interleaved,
             inverse, y.mutable_data_ptr(), on.stream());
  on.check();
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("rms_norm", &rms_norm_cuda);
  m.impl("rms_norm_backward", &rms_norm_backward_cuda);
  m.impl("swiglu", &swiglu_cuda);
  m.impl("swiglu_backward", &swiglu_backward_cuda);
  m.impl("rope", &rope_cuda);
}

}  // namespace rondo

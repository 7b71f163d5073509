#include "ops/swiglu/swiglu_cuda.h"

#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/swiglu/swiglu.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor swiglu_cuda(const Tensor& gate_in, const Tensor& up_in) {
  const cuda::Launch launch(gate_in, "swiglu");
  const Tensor y = swiglu_result(gate_in, up_in);
  if (y.numel() == 0) return y;
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  cuda::swiglu(launch.element(gate), gate.const_data_ptr(), up.const_data_ptr(), y.mutable_data_ptr(),
               y.numel(), launch.stream());
  launch.check();
  return y;
}

std::tuple<Tensor, Tensor> swiglu_backward_cuda(const Tensor& grad_in, const Tensor& gate_in,
                                                const Tensor& up_in) {
  const cuda::Launch launch(gate_in, "swiglu_backward");
  const auto [grad_gate, grad_up] = swiglu_gradients(grad_in, gate_in, up_in);
  if (gate_in.numel() == 0) return {grad_gate, grad_up};
  const Tensor grad = grad_in.contiguous(), gate = gate_in.contiguous(), up = up_in.contiguous();
  cuda::swiglu_backward(launch.element(gate), grad.const_data_ptr(), gate.const_data_ptr(),
                        up.const_data_ptr(), grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(),
                        gate.numel(), launch.stream());
  launch.check();
  return {grad_gate, grad_up};
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("swiglu", &swiglu_cuda);
  m.impl("swiglu_backward", &swiglu_backward_cuda);
}

}  // namespace rondo

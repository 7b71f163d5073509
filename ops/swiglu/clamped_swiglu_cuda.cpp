#include "ops/swiglu/clamped_swiglu_cuda.h"

#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/swiglu/clamped_swiglu.h"

namespace rondo {
namespace {

using at::Tensor;

// REQUIRES: gate_up is contiguous.
cuda::ClampedPairs clamped_pairs(const cuda::Launch& launch, const Tensor& gate_up, const Tensor& count,
                                 double limit, double slope) {
  return {gate_up.size(0),
          gate_up.size(1) / 2,
          launch.element(gate_up),
          gate_up.const_data_ptr(),
          count.const_data_ptr<std::int32_t>(),
          static_cast<float>(limit),
          static_cast<float>(slope)};
}

Tensor clamped_swiglu_cuda(const Tensor& gate_up_in, const Tensor& count, double limit, double slope) {
  const cuda::Launch launch(gate_up_in, "clamped_swiglu");
  const Tensor y = clamped_swiglu_result(gate_up_in);
  if (y.numel() == 0) return y;
  const Tensor gate_up = gate_up_in.contiguous();
  cuda::clamped_swiglu(clamped_pairs(launch, gate_up, count, limit, slope), y.mutable_data_ptr(),
                       launch.stream());
  launch.check();
  return y;
}

Tensor clamped_swiglu_backward_cuda(const Tensor& grad_in, const Tensor& gate_up_in, const Tensor& count,
                                    double limit, double slope) {
  const cuda::Launch launch(gate_up_in, "clamped_swiglu_backward");
  const Tensor grad_gate_up = clamped_swiglu_gradient(grad_in, gate_up_in);
  if (grad_gate_up.numel() == 0) return grad_gate_up;
  const Tensor grad = grad_in.contiguous(), gate_up = gate_up_in.contiguous();
  cuda::clamped_swiglu_backward(clamped_pairs(launch, gate_up, count, limit, slope), grad.const_data_ptr(),
                                grad_gate_up.mutable_data_ptr(), launch.stream());
  launch.check();
  return grad_gate_up;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("clamped_swiglu", &clamped_swiglu_cuda);
  m.impl("clamped_swiglu_backward", &clamped_swiglu_backward_cuda);
}

}  // namespace rondo

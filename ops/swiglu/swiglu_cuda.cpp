#include "ops/swiglu/swiglu_cuda.h"

#include <torch/library.h>

#include <optional>

#include "ops/kernel/launch.h"
#include "ops/kernel/rows.h"
#include "ops/swiglu/swiglu.h"

namespace rondo {
namespace {

using at::Tensor;

// `gate` and `up` have two dimensions.
cuda::SwigluRows rows_of_swiglu(const cuda::Launch& launch, const Tensor& gate, const Tensor& up,
                                const std::optional<Tensor>& count = {}) {
  return {gate.size(0),         gate.size(1),
          launch.element(gate), gate.const_data_ptr(),
          gate.stride(0),       up.const_data_ptr(),
          up.stride(0),         count ? count->const_data_ptr<std::int32_t>() : nullptr};
}

Tensor forward(const Tensor& gate_in, const Tensor& up_in, const std::optional<Tensor>& count) {
  const cuda::Launch launch(gate_in, "swiglu");
  const Tensor y = swiglu_result(gate_in, up_in);
  if (y.numel() == 0) return y;
  const Tensor gate = rows_of(gate_in), up = rows_of(up_in);
  cuda::swiglu(rows_of_swiglu(launch, gate, up, count), y.mutable_data_ptr(), launch.stream());
  launch.check();
  return y;
}

std::tuple<Tensor, Tensor> backward(const Tensor& grad_in, const Tensor& gate_in, const Tensor& up_in,
                                    const std::optional<Tensor>& count) {
  const cuda::Launch launch(gate_in, "swiglu_backward");
  const auto [grad_gate, grad_up] = swiglu_gradients(grad_in, gate_in, up_in);
  if (gate_in.numel() == 0) return {grad_gate, grad_up};
  const Tensor grad = grad_in.contiguous(), gate = rows_of(gate_in), up = rows_of(up_in);
  cuda::swiglu_backward(rows_of_swiglu(launch, gate, up, count), grad.const_data_ptr(),
                        grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(), gate.size(1),
                        launch.stream());
  launch.check();
  return {grad_gate, grad_up};
}

Tensor swiglu_cuda(const Tensor& gate, const Tensor& up) { return forward(gate, up, {}); }
Tensor swiglu_rows_cuda(const Tensor& gate, const Tensor& up, const Tensor& count) {
  return forward(gate, up, count);
}
std::tuple<Tensor, Tensor> swiglu_backward_cuda(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  return backward(grad, gate, up, {});
}
std::tuple<Tensor, Tensor> swiglu_rows_backward_cuda(const Tensor& grad, const Tensor& gate, const Tensor& up,
                                                     const Tensor& count) {
  return backward(grad, gate, up, count);
}

Tensor swiglu_backward_joined_cuda(const Tensor& grad_in, const Tensor& gate_in, const Tensor& up_in) {
  const cuda::Launch launch(gate_in, "swiglu_backward_joined");
  const Tensor joined = swiglu_joined_gradient(grad_in, gate_in, up_in);
  if (joined.numel() == 0) return joined;
  const Tensor grad = grad_in.contiguous(), gate = rows_of(gate_in), up = rows_of(up_in);
  const std::int64_t width = gate.size(1);
  auto* const to = static_cast<char*>(joined.mutable_data_ptr());
  cuda::swiglu_backward(rows_of_swiglu(launch, gate, up), grad.const_data_ptr(), to,
                        to + width * joined.element_size(), 2 * width, launch.stream());
  launch.check();
  return joined;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("swiglu", &swiglu_cuda);
  m.impl("swiglu_backward", &swiglu_backward_cuda);
  m.impl("swiglu_backward_joined", &swiglu_backward_joined_cuda);
  m.impl("swiglu_rows", &swiglu_rows_cuda);
  m.impl("swiglu_rows_backward", &swiglu_rows_backward_cuda);
}

}  // namespace rondo

#include "ops/swiglu/swiglu.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "ops/kernel/fused_ops.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr std::int64_t kGrain = 4096;

Tensor swiglu_cpu(const Tensor& gate_in, const Tensor& up_in) {
  const Tensor result = swiglu_result(gate_in, up_in);
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  with_dtype(gate, [&](auto type) {
    using T = decltype(type);
    const T *const g = gate.const_data_ptr<T>(), *const u = up.const_data_ptr<T>();
    T* const to = result.mutable_data_ptr<T>();
    at::parallel_for(0, gate.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = static_cast<T>(swiglu::forward(static_cast<float>(g[i]), static_cast<float>(u[i])));
    });
  });
  return result;
}

TwoTensors swiglu_backward_cpu(const Tensor& grad_in, const Tensor& gate_in, const Tensor& up_in) {
  auto [grad_gate, grad_up] = swiglu_gradients(grad_in, gate_in, up_in);
  const Tensor grad = grad_in.contiguous(), gate = gate_in.contiguous(), up = up_in.contiguous();
  with_dtype(gate, [&](auto type) {
    using T = decltype(type);
    const T* const d = grad.const_data_ptr<T>();
    const T *const g = gate.const_data_ptr<T>(), *const u = up.const_data_ptr<T>();
    T* const of_gate = grad_gate.template mutable_data_ptr<T>();
    T* const of_up = grad_up.template mutable_data_ptr<T>();
    at::parallel_for(0, gate.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const swiglu::Gradients made =
            swiglu::backward(static_cast<float>(d[i]), static_cast<float>(g[i]), static_cast<float>(u[i]));
        of_gate[i] = static_cast<T>(made.gate);
        of_up[i] = static_cast<T>(made.up);
      }
    });
  });
  return {grad_gate, grad_up};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor grad_gate, Tensor grad_up)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("swiglu", &swiglu_result);
  m.impl("swiglu_backward", &swiglu_gradients);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("swiglu", &swiglu_cpu);
  m.impl("swiglu_backward", &swiglu_backward_cpu);
}

}  // namespace rondo

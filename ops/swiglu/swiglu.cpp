#include "ops/swiglu/swiglu.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"
#include "ops/swiglu/swiglu_math.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor swiglu_cpu(const Tensor& gate_in, const Tensor& up_in) {
  const Tensor result = swiglu_result(gate_in, up_in);
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  with_dtype(gate, "swiglu", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const T *const g = gate.const_data_ptr<T>(), *const u = up.const_data_ptr<T>();
    T* const to = result.mutable_data_ptr<T>();
    for_each_element(gate.numel(), [&](std::int64_t i) {
      to[i] = static_cast<T>(swiglu::forward(static_cast<Sum>(g[i]), static_cast<Sum>(u[i])));
    });
  });
  return result;
}

std::tuple<Tensor, Tensor> swiglu_backward_cpu(const Tensor& grad_in, const Tensor& gate_in,
                                               const Tensor& up_in) {
  std::tuple<Tensor, Tensor> gradients = swiglu_gradients(grad_in, gate_in, up_in);
  const Tensor grad = grad_in.contiguous(), gate = gate_in.contiguous(), up = up_in.contiguous();
  with_dtype(gate, "swiglu_backward", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const T* const d = grad.const_data_ptr<T>();
    const T *const g = gate.const_data_ptr<T>(), *const u = up.const_data_ptr<T>();
    T* const of_gate = std::get<0>(gradients).template mutable_data_ptr<T>();
    T* const of_up = std::get<1>(gradients).template mutable_data_ptr<T>();
    for_each_element(gate.numel(), [&](std::int64_t i) {
      const swiglu::Gradients<Sum> made =
          swiglu::backward(static_cast<Sum>(d[i]), static_cast<Sum>(g[i]), static_cast<Sum>(u[i]));
      of_gate[i] = static_cast<T>(made.gate);
      of_up[i] = static_cast<T>(made.up);
    });
  });
  return gradients;
}

}  // namespace

Tensor swiglu_result(const Tensor& gate, const Tensor& up) {
  check_float("swiglu", "gate", gate);
  check_operand("swiglu", "up", up, gate.sizes(), gate.scalar_type());
  return at::empty(gate.sizes(), gate.options());
}

std::tuple<Tensor, Tensor> swiglu_gradients(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  constexpr const char* kOp = "swiglu_backward";
  check_float(kOp, "gate", gate);
  check_operand(kOp, "up", up, gate.sizes(), gate.scalar_type());
  check_operand(kOp, "grad", grad, gate.sizes(), gate.scalar_type());
  return {at::empty(gate.sizes(), gate.options()), at::empty(gate.sizes(), gate.options())};
}

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

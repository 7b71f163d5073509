// The clamped SwiGLU: checks, shape rules, and CPU kernels, a row at a time.
#include "ops/swiglu/clamped_swiglu.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/with_dtype.h"
#include "ops/swiglu/swiglu_math.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor clamped_swiglu_cpu(const Tensor& gate_up_in, const Tensor& count, double limit, double slope) {
  const Tensor result = clamped_swiglu_result(gate_up_in);
  const Tensor gate_up = rows_of(gate_up_in);
  const std::int64_t width = gate_up.size(1) / 2;
  with_dtype(gate_up, "clamped_swiglu", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const T* const pairs = gate_up.const_data_ptr<T>();
    T* const results = result.mutable_data_ptr<T>();
    const swiglu::Clamp<Sum> clamp{static_cast<Sum>(limit), static_cast<Sum>(slope)};
    const std::int64_t filled = filled_rows(count, gate_up.size(0));
    for_each_row(gate_up.size(0), width, [&](std::int64_t row) {
      const T* const pair = pairs + row * gate_up.stride(0);
      T* const to = results + row * width;
      if (row >= filled) {
        std::fill_n(to, width, T(0));
        return;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i)
        to[i] = static_cast<T>(
            swiglu::forward(static_cast<Sum>(pair[2 * i]), static_cast<Sum>(pair[2 * i + 1]), clamp));
    });
  });
  return result;
}

Tensor clamped_swiglu_backward_cpu(const Tensor& grad_in, const Tensor& gate_up_in, const Tensor& count,
                                   double limit, double slope) {
  const Tensor result = clamped_swiglu_gradient(grad_in, gate_up_in);
  const Tensor grad = rows_of(grad_in), gate_up = rows_of(gate_up_in);
  const std::int64_t width = grad.size(1);
  with_dtype(gate_up, "clamped_swiglu", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const T *const grads = grad.const_data_ptr<T>(), *const pairs = gate_up.const_data_ptr<T>();
    T* const results = result.mutable_data_ptr<T>();
    const swiglu::Clamp<Sum> clamp{static_cast<Sum>(limit), static_cast<Sum>(slope)};
    const std::int64_t filled = filled_rows(count, grad.size(0));
    for_each_row(grad.size(0), width, [&](std::int64_t row) {
      const T *const d = grads + row * grad.stride(0), *const pair = pairs + row * gate_up.stride(0);
      T* const to = results + row * 2 * width;
      if (row >= filled) {
        std::fill_n(to, 2 * width, T(0));
        return;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) {
        const swiglu::Gradients<Sum> gradients = swiglu::backward(
            static_cast<Sum>(d[i]), static_cast<Sum>(pair[2 * i]), static_cast<Sum>(pair[2 * i + 1]), clamp);
        to[2 * i] = static_cast<T>(gradients.gate);
        to[2 * i + 1] = static_cast<T>(gradients.up);
      }
    });
  });
  return result;
}

struct ClampedSwiglu : torch::autograd::Function<ClampedSwiglu> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate_up, const Tensor& count,
                        double limit, double slope) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({gate_up, count});
    context->saved_data["limit"] = limit;
    context->saved_data["slope"] = slope;
    return clamped_swiglu(gate_up, count, limit, slope);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto handle =
        op_handle<decltype(clamped_swiglu_backward_cpu)>("rondo::clamped_swiglu_backward");
    const auto saved = context->get_saved_variables();
    return {handle.call(gradients[0], saved[0], saved[1], context->saved_data["limit"].toDouble(),
                        context->saved_data["slope"].toDouble()),
            {},
            {},
            {}};
  }
};
Tensor clamped_swiglu_autograd(const Tensor& gate_up, const Tensor& count, double limit, double slope) {
  return ClampedSwiglu::apply(gate_up, count, limit, slope);
}

std::vector<std::int64_t> halved(const char* op, const Tensor& gate_up) {
  check_float(op, "gate_up", gate_up);
  RONDO_ASSERT(gate_up.dim() == 2 && gate_up.size(1) % 2 == 0, "gate_up must have rows of pairs");
  std::vector<std::int64_t> sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  return sizes;
}

}  // namespace

Tensor clamped_swiglu(const Tensor& gate_up, const Tensor& count, double limit, double slope) {
  static const auto handle = op_handle<decltype(clamped_swiglu_cpu)>("rondo::clamped_swiglu");
  return handle.call(gate_up, count, limit, slope);
}

Tensor clamped_swiglu_result(const Tensor& gate_up) {
  return at::empty(halved("clamped_swiglu", gate_up), gate_up.options());
}

Tensor clamped_swiglu_gradient(const Tensor& grad, const Tensor& gate_up) {
  constexpr const char* kOp = "clamped_swiglu_backward";
  check_operand(kOp, "grad", grad, halved(kOp, gate_up), gate_up.scalar_type());
  return at::empty(gate_up.sizes(), gate_up.options());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("clamped_swiglu(Tensor gate_up, Tensor count, float limit, float slope) -> Tensor");
  m.def(
      "clamped_swiglu_backward(Tensor grad, Tensor gate_up, Tensor count, float limit, float slope) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("clamped_swiglu",
         [](const Tensor& gate_up, const Tensor&, double, double) { return clamped_swiglu_result(gate_up); });
  m.impl("clamped_swiglu_backward", [](const Tensor& grad, const Tensor& gate_up, const Tensor&, double,
                                       double) { return clamped_swiglu_gradient(grad, gate_up); });
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("clamped_swiglu", &clamped_swiglu_cpu);
  m.impl("clamped_swiglu_backward", &clamped_swiglu_backward_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Autograd, m) { m.impl("clamped_swiglu", &clamped_swiglu_autograd); }

}  // namespace rondo

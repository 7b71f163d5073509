// SwiGLU: checks, shape rules, and CPU kernels, a row at a time.
#include "ops/swiglu/swiglu.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
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

// `count`: absent if all rows are valid.
using Count = std::optional<Tensor>;

Tensor forward(const Tensor& gate_in, const Tensor& up_in, const Count& count) {
  const Tensor result = swiglu_result(gate_in, up_in);
  const Tensor gate = rows_of(gate_in), up = rows_of(up_in);
  const std::int64_t width = gate.size(1);
  with_dtype(gate, "swiglu", [&](auto type) {
    using T = decltype(type);
    const T *const gates = gate.const_data_ptr<T>(), *const ups = up.const_data_ptr<T>();
    T* const results = result.mutable_data_ptr<T>();
    const std::int64_t filled = filled_rows(count, gate.size(0));
    for_each_row(gate.size(0), width, [&](std::int64_t row) {
      const T *const g = gates + row * gate.stride(0), *const u = ups + row * up.stride(0);
      T* const to = results + row * width;
      if (row >= filled) {
        std::fill_n(to, width, T(0));
        return;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i)
        to[i] = static_cast<T>(swiglu::forward(static_cast<SumOf<T>>(g[i]), static_cast<SumOf<T>>(u[i])));
    });
  });
  return result;
}

// Writes rows of both gradients, `stride` elements apart.
template <class T>
void write_gradients(const Tensor& grad_in, const Tensor& gate_in, const Tensor& up_in, const Count& count,
                     T* grad_gate, T* grad_up, std::int64_t stride) {
  using Sum = SumOf<T>;
  const Tensor grad = rows_of(grad_in), gate = rows_of(gate_in), up = rows_of(up_in);
  const std::int64_t width = gate.size(1);
  const T *const grads = grad.const_data_ptr<T>(), *const gates = gate.const_data_ptr<T>(),
                 *const ups = up.const_data_ptr<T>();
  const std::int64_t filled = filled_rows(count, gate.size(0));
  for_each_row(gate.size(0), width, [&](std::int64_t row) {
    const T *const d = grads + row * grad.stride(0), *const g = gates + row * gate.stride(0),
                   *const u = ups + row * up.stride(0);
    T *const of_gate = grad_gate + row * stride, *const of_up = grad_up + row * stride;
    if (row >= filled) {
      std::fill_n(of_gate, width, T(0));
      std::fill_n(of_up, width, T(0));
      return;
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      const swiglu::Gradients<Sum> made =
          swiglu::backward(static_cast<Sum>(d[i]), static_cast<Sum>(g[i]), static_cast<Sum>(u[i]));
      of_gate[i] = static_cast<T>(made.gate);
      of_up[i] = static_cast<T>(made.up);
    }
  });
}

std::tuple<Tensor, Tensor> backward(const Tensor& grad, const Tensor& gate, const Tensor& up,
                                    const Count& count) {
  std::tuple<Tensor, Tensor> gradients = swiglu_gradients(grad, gate, up);
  with_dtype(gate, "swiglu", [&](auto type) {
    using T = decltype(type);
    write_gradients(grad, gate, up, count, std::get<0>(gradients).template mutable_data_ptr<T>(),
                    std::get<1>(gradients).template mutable_data_ptr<T>(), rows_of(gate).size(1));
  });
  return gradients;
}

Tensor swiglu_cpu(const Tensor& gate, const Tensor& up) { return forward(gate, up, {}); }
Tensor swiglu_rows_cpu(const Tensor& gate, const Tensor& up, const Tensor& count) {
  return forward(gate, up, count);
}
std::tuple<Tensor, Tensor> swiglu_backward_cpu(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  return backward(grad, gate, up, {});
}
std::tuple<Tensor, Tensor> swiglu_rows_backward_cpu(const Tensor& grad, const Tensor& gate, const Tensor& up,
                                                    const Tensor& count) {
  return backward(grad, gate, up, count);
}

Tensor swiglu_backward_joined_cpu(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  const Tensor joined = swiglu_joined_gradient(grad, gate, up);
  with_dtype(gate, "swiglu", [&](auto type) {
    using T = decltype(type);
    T* const to = joined.template mutable_data_ptr<T>();
    write_gradients(grad, gate, up, {}, to, to + gate.size(-1), 2 * gate.size(-1));
  });
  return joined;
}

struct Swiglu : torch::autograd::Function<Swiglu> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate, const Tensor& up,
                        const Count& count) {
    at::AutoDispatchBelowAutograd below_autograd;
    torch::autograd::variable_list saved = {gate, up};
    if (count) saved.push_back(*count);
    context->save_for_backward(std::move(saved));
    return swiglu_of(gate, up, count);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto all = op_handle<decltype(swiglu_backward_cpu)>("rondo::swiglu_backward");
    static const auto counted = op_handle<decltype(swiglu_rows_backward_cpu)>("rondo::swiglu_rows_backward");
    const auto saved = context->get_saved_variables();
    auto [of_gate, of_up] = saved.size() > 2 ? counted.call(gradients[0], saved[0], saved[1], saved[2])
                                             : all.call(gradients[0], saved[0], saved[1]);
    return {of_gate, of_up, {}};
  }
};

void check_gradients(const char* op, const Tensor& grad, const Tensor& gate, const Tensor& up) {
  check_float(op, "gate", gate);
  check_operand(op, "up", up, gate.sizes(), gate.scalar_type());
  check_operand(op, "grad", grad, gate.sizes(), gate.scalar_type());
}

}  // namespace

Tensor swiglu_of(const Tensor& gate, const Tensor& up, const Count& count) {
  static const auto all = op_handle<decltype(swiglu_cpu)>("rondo::swiglu");
  static const auto counted = op_handle<decltype(swiglu_rows_cpu)>("rondo::swiglu_rows");
  return count ? counted.call(gate, up, *count) : all.call(gate, up);
}

Tensor swiglu_result(const Tensor& gate, const Tensor& up) {
  check_float("swiglu", "gate", gate);
  check_operand("swiglu", "up", up, gate.sizes(), gate.scalar_type());
  return at::empty(gate.sizes(), gate.options());
}

std::tuple<Tensor, Tensor> swiglu_gradients(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  check_gradients("swiglu_backward", grad, gate, up);
  return {at::empty(gate.sizes(), gate.options()), at::empty(gate.sizes(), gate.options())};
}

Tensor swiglu_joined_gradient(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  constexpr const char* kOp = "swiglu_backward_joined";
  check_gradients(kOp, grad, gate, up);
  RONDO_ASSERT(gate.dim() > 0, std::string(kOp) + ": gate must have at least one dimension");
  std::vector<std::int64_t> sizes = gate.sizes().vec();
  sizes.back() *= 2;
  return at::empty(sizes, gate.options());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor grad_gate, Tensor grad_up)");
  m.def("swiglu_rows(Tensor gate, Tensor up, Tensor count) -> Tensor");
  m.def(
      "swiglu_rows_backward(Tensor grad, Tensor gate, Tensor up, Tensor count) -> "
      "(Tensor grad_gate, Tensor grad_up)");
  m.def("swiglu_backward_joined(Tensor grad, Tensor gate, Tensor up) -> Tensor grad_gate_up");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("swiglu", &swiglu_result);
  m.impl("swiglu_backward", &swiglu_gradients);
  m.impl("swiglu_backward_joined", &swiglu_joined_gradient);
  m.impl("swiglu_rows",
         [](const Tensor& gate, const Tensor& up, const Tensor&) { return swiglu_result(gate, up); });
  m.impl("swiglu_rows_backward", [](const Tensor& grad, const Tensor& gate, const Tensor& up, const Tensor&) {
    return swiglu_gradients(grad, gate, up);
  });
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("swiglu", &swiglu_cpu);
  m.impl("swiglu_backward", &swiglu_backward_cpu);
  m.impl("swiglu_backward_joined", &swiglu_backward_joined_cpu);
  m.impl("swiglu_rows", &swiglu_rows_cpu);
  m.impl("swiglu_rows_backward", &swiglu_rows_backward_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Autograd, m) {
  m.impl("swiglu", [](const Tensor& gate, const Tensor& up) { return Swiglu::apply(gate, up, Count()); });
  m.impl("swiglu_rows", [](const Tensor& gate, const Tensor& up, const Tensor& count) {
    return Swiglu::apply(gate, up, Count(count));
  });
}

}  // namespace rondo

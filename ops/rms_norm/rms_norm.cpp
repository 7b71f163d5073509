// RMSNorm: checks, shape rules, and CPU kernels. Sums of a row have a fixed number of lanes, sums
// over rows a fixed number of parts, so that bits depend only on shapes.
#include "ops/rms_norm/rms_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/with_dtype.h"
#include "ops/rms_norm/rms_norm_math.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

at::ScalarType dtype_of_y(const Tensor& x, const Tensor& weight) {
  return c10::promoteTypes(x.scalar_type(), weight.scalar_type());
}

void check_norm(const char* op, const Tensor& x, const Tensor& weight) {
  check_float(op, "x", x);
  check_float(op, "weight", weight);
  RONDO_ASSERT((x.scalar_type() == at::kDouble) == (weight.scalar_type() == at::kDouble),
               std::string(op) + ": x and weight must both be float64, or neither");
  RONDO_ASSERT(x.dim() > 0 && x.size(-1) > 0, std::string(op) + ": x must have at least one column");
  check_operand(op, "weight", weight, {x.size(-1)}, weight.scalar_type());
}

std::vector<std::int64_t> sizes_of_inverse(const Tensor& x) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return sizes;
}

template <class X, class W>
using Wider = std::conditional_t<std::is_same_v<X, W>, X, decltype(SumOf<X>() + SumOf<W>())>;

// Sixteen partial sums, because the compiler may not split one sum.
template <class Sum, class Term>
Sum sum_over(std::int64_t count, Term term) {
  constexpr std::int64_t kLanes = 16;
  Sum lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (; i < count; ++i) lanes[i % kLanes] += term(i);
  Sum sum = 0;
  for (Sum lane : lanes) sum += lane;
  return sum;
}

// Normalizes x, or x + residual, which is written to `sum`. Both are contiguous, or both undefined.
void normalize(const Tensor& x_in, const Tensor& residual, const Tensor& sum, const Tensor& weight_in,
               double eps, const Tensor& y, const Tensor& inverse_rms) {
  const Tensor x = rows_of(x_in), weight = weight_in.contiguous();
  const std::int64_t width = x.size(1);
  with_dtype(x, "rms_norm", [&](auto x_type) {
    with_dtype(weight, "rms_norm", [&](auto w_type) {
      using X = decltype(x_type);
      using W = decltype(w_type);
      using Y = Wider<X, W>;
      using Sum = SumOf<X>;
      const X* const from = x.const_data_ptr<X>();
      const X* const residuals = residual.defined() ? residual.const_data_ptr<X>() : nullptr;
      X* const sums = sum.defined() ? sum.mutable_data_ptr<X>() : nullptr;
      const W* const w = weight.const_data_ptr<W>();
      Y* const to = y.template mutable_data_ptr<Y>();
      Sum* const inverses = inverse_rms.template mutable_data_ptr<Sum>();
      for_each_row(x.size(0), width, [&](std::int64_t row) {
        const X* in = from + row * x.stride(0);
        if (sums != nullptr) {
          const X* const added = residuals + row * width;
          X* const added_up = sums + row * width;
#pragma GCC ivdep
          for (std::int64_t d = 0; d < width; ++d)
            added_up[d] = static_cast<X>(static_cast<Sum>(in[d]) + static_cast<Sum>(added[d]));
          in = added_up;
        }
        Y* const out = to + row * width;
        const Sum squares = sum_over<Sum>(width, [&](std::int64_t d) {
          const auto value = static_cast<Sum>(in[d]);
          return value * value;
        });
        const Sum inverse = rms_norm::inverse_rms(squares, width, static_cast<Sum>(eps));
        inverses[row] = inverse;
#pragma GCC ivdep
        for (std::int64_t d = 0; d < width; ++d)
          out[d] =
              static_cast<Y>(rms_norm::normalized(static_cast<Sum>(in[d]), inverse, static_cast<Sum>(w[d])));
      });
    });
  });
}

std::tuple<Tensor, Tensor> rms_norm_cpu(const Tensor& x, const Tensor& weight, double eps) {
  const auto [y, inverse_rms] = rms_norm_results(x, weight);
  normalize(x, {}, {}, weight, eps, y, inverse_rms);
  return {y, inverse_rms};
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm_cpu(const Tensor& x, const Tensor& residual,
                                                    const Tensor& weight, double eps) {
  const auto [sum, y, inverse_rms] = add_rms_norm_results(x, residual, weight);
  normalize(x, residual.contiguous(), sum, weight, eps, y, inverse_rms);
  return {sum, y, inverse_rms};
}

// Computes the gradients of a run of rows and adds the rows' part of the weight's gradient to
// `sums`.
template <class G, class X, class W>
struct BackwardRows {
  using Sum = SumOf<X>;
  const G* grad;
  std::int64_t grad_stride;
  const X* x;
  std::int64_t x_stride;
  const W* weight;
  const Sum* inverse_rms;
  std::int64_t width;
  const X* grad_sum;  // contiguous, or null
  X* grad_x;

  void run(std::int64_t begin, std::int64_t end, Sum* sums) const {
    for (std::int64_t row = begin; row < end; ++row) {
      const G* const g = grad + row * grad_stride;
      const X* const in = x + row * x_stride;
      const X* const added = grad_sum == nullptr ? nullptr : grad_sum + row * width;
      X* const out = grad_x + row * width;
      const auto of_normalized = [&](std::int64_t d) {
        return static_cast<Sum>(g[d]) * static_cast<Sum>(weight[d]);
      };
      const Sum inverse = inverse_rms[row];
      const Sum sum =
          sum_over<Sum>(width, [&](std::int64_t d) { return of_normalized(d) * static_cast<Sum>(in[d]); });
      const Sum pull = rms_norm::pull(sum, width, inverse);
      // Rounded before the addition, as in the op without a sum.
      const auto gradient_at = [&](std::int64_t d) {
        const auto value = static_cast<Sum>(in[d]);
        sums[d] += static_cast<Sum>(g[d]) * value * inverse;
        return static_cast<X>(rms_norm::gradient(of_normalized(d), value, inverse, pull));
      };
      if (added == nullptr) {
#pragma GCC ivdep
        for (std::int64_t d = 0; d < width; ++d) out[d] = gradient_at(d);
      } else {
#pragma GCC ivdep
        for (std::int64_t d = 0; d < width; ++d)
          out[d] = static_cast<X>(static_cast<Sum>(gradient_at(d)) + static_cast<Sum>(added[d]));
      }
    }
  }
};

// Sums of parts of the rows, then the sum of these, for any number of threads.
constexpr std::int64_t kParts = 64;

// grad_sum is contiguous, or undefined.
void write_gradients(const Tensor& grad_in, const Tensor& x_in, const Tensor& weight_in,
                     const Tensor& inverse_in, const Tensor& grad_sum, const Tensor& grad_x,
                     const Tensor& grad_weight) {
  const Tensor grad = rows_of(grad_in), x = rows_of(x_in);
  const Tensor weight = weight_in.contiguous(), inverse_rms = inverse_in.contiguous();
  const std::int64_t rows = x.size(0), width = x.size(1);
  const Tensor parts = at::zeros({std::min(rows, kParts), width}, grad_weight.options());
  const std::int64_t count = parts.size(0);
  with_dtype(x, "rms_norm_backward", [&](auto x_type) {
    with_dtype(weight, "rms_norm_backward", [&](auto w_type) {
      using X = decltype(x_type);
      using W = decltype(w_type);
      using G = Wider<X, W>;
      using Sum = SumOf<X>;
      Sum* const sums = parts.template mutable_data_ptr<Sum>();
      const BackwardRows<G, X, W> backward{grad.const_data_ptr<G>(),
                                           grad.stride(0),
                                           x.const_data_ptr<X>(),
                                           x.stride(0),
                                           weight.const_data_ptr<W>(),
                                           inverse_rms.const_data_ptr<Sum>(),
                                           width,
                                           grad_sum.defined() ? grad_sum.const_data_ptr<X>() : nullptr,
                                           grad_x.template mutable_data_ptr<X>()};
      for_each_row(count, rows / kParts * width, [&](std::int64_t part) {
        backward.run(part * rows / count, (part + 1) * rows / count, sums + part * width);
      });
      Sum* const total = grad_weight.template mutable_data_ptr<Sum>();
      std::fill(total, total + width, Sum(0));
      for (std::int64_t part = 0; part < count; ++part)
        for (std::int64_t d = 0; d < width; ++d) total[d] += sums[part * width + d];
    });
  });
}

std::tuple<Tensor, Tensor> rms_norm_backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                 const Tensor& inverse_rms) {
  std::tuple<Tensor, Tensor> made = rms_norm_gradients(grad, x, weight, inverse_rms);
  write_gradients(grad, x, weight, inverse_rms, {}, std::get<0>(made), std::get<1>(made));
  return made;
}

std::tuple<Tensor, Tensor> add_rms_norm_backward_cpu(const Tensor& grad, const Tensor& x,
                                                     const Tensor& weight, const Tensor& inverse_rms,
                                                     const Tensor& grad_sum) {
  std::tuple<Tensor, Tensor> made = add_rms_norm_gradients(grad, x, weight, inverse_rms, grad_sum);
  write_gradients(grad, x, weight, inverse_rms, grad_sum.contiguous(), std::get<0>(made), std::get<1>(made));
  return made;
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& x,
                                                const Tensor& weight, double eps) {
    static const auto handle = op_handle<decltype(rms_norm_cpu)>("rondo::rms_norm");
    at::AutoDispatchBelowAutograd below_autograd;
    auto [y, inverse_rms] = handle.call(x, weight, eps);
    context->save_for_backward({x, weight, inverse_rms});
    context->mark_non_differentiable({inverse_rms});
    context->set_materialize_grads(false);  // inverse_rms has no gradient; no zeros replace it
    return {y, inverse_rms};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto handle = op_handle<decltype(rms_norm_backward_cpu)>("rondo::rms_norm_backward");
    const auto saved = context->get_saved_variables();
    auto [of_x, of_weight] = handle.call(gradients[0], saved[0], saved[1], saved[2]);
    return {of_x, of_weight.to(saved[1].scalar_type()), {}};
  }
};
std::tuple<Tensor, Tensor> rms_norm_autograd(const Tensor& x, const Tensor& weight, double eps) {
  const auto results = RmsNorm::apply(x, weight, eps);
  return {results[0], results[1]};
}

}  // namespace

Tensor rms_norm_of(const Tensor& x, const Tensor& weight, double eps) {
  static const auto handle = op_handle<decltype(rms_norm_cpu)>("rondo::rms_norm");
  return std::get<0>(handle.call(x, weight, eps));
}

std::tuple<Tensor, Tensor> rms_norm_results(const Tensor& x, const Tensor& weight) {
  check_norm("rms_norm", x, weight);
  return {at::empty(x.sizes(), x.options().dtype(dtype_of_y(x, weight))),
          at::empty(sizes_of_inverse(x), x.options().dtype(sum_dtype(x)))};
}

std::tuple<Tensor, Tensor> rms_norm_gradients(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                              const Tensor& inverse_rms) {
  constexpr const char* kOp = "rms_norm_backward";
  check_norm(kOp, x, weight);
  check_operand(kOp, "grad", grad, x.sizes(), dtype_of_y(x, weight));
  check_operand(kOp, "inverse_rms", inverse_rms, sizes_of_inverse(x), sum_dtype(x));
  return {at::empty(x.sizes(), x.options()), at::empty(weight.sizes(), x.options().dtype(sum_dtype(x)))};
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm_results(const Tensor& x, const Tensor& residual,
                                                        const Tensor& weight) {
  auto [y, inverse_rms] = rms_norm_results(x, weight);
  check_operand("add_rms_norm", "residual", residual, x.sizes(), x.scalar_type());
  return {at::empty(x.sizes(), x.options()), std::move(y), std::move(inverse_rms)};
}

std::tuple<Tensor, Tensor> add_rms_norm_gradients(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                  const Tensor& inverse_rms, const Tensor& grad_sum) {
  check_operand("add_rms_norm_backward", "grad_sum", grad_sum, x.sizes(), x.scalar_type());
  return rms_norm_gradients(grad, x, weight, inverse_rms);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor y, Tensor inverse_rms)");
  m.def(
      "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor inverse_rms) "
      "-> (Tensor grad_x, Tensor grad_weight)");
  m.def(
      "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) "
      "-> (Tensor sum, Tensor y, Tensor inverse_rms)");
  m.def(
      "add_rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor inverse_rms, Tensor grad_sum) "
      "-> (Tensor grad_x, Tensor grad_weight)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("rms_norm",
         [](const Tensor& x, const Tensor& weight, double) { return rms_norm_results(x, weight); });
  m.impl("rms_norm_backward", &rms_norm_gradients);
  m.impl("add_rms_norm", [](const Tensor& x, const Tensor& residual, const Tensor& weight, double) {
    return add_rms_norm_results(x, residual, weight);
  });
  m.impl("add_rms_norm_backward", &add_rms_norm_gradients);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("rms_norm", &rms_norm_cpu);
  m.impl("rms_norm_backward", &rms_norm_backward_cpu);
  m.impl("add_rms_norm", &add_rms_norm_cpu);
  m.impl("add_rms_norm_backward", &add_rms_norm_backward_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Autograd, m) { m.impl("rms_norm", &rms_norm_autograd); }

}  // namespace rondo

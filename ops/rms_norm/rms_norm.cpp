#include "ops/rms_norm/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>

#include "ops/kernel/fused_ops.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;

template <class X, class W>
using Wider = std::conditional_t<std::is_same_v<X, W>, X, float>;

// Sixteen sums side by side, as the compiler may not make them out of one.
template <class Term>
float sum_over(std::int64_t count, Term term) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (; i < count; ++i) lanes[i % kLanes] += term(i);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

std::int64_t grain(std::int64_t width) { return std::max<std::int64_t>(1, 16384 / width); }

TwoTensors rms_norm_cpu(const Tensor& x_in, const Tensor& weight_in, double eps) {
  auto [y, inverse_rms] = rms_norm_results(x_in, weight_in);
  const Tensor x = rows_of(x_in), weight = weight_in.contiguous();
  const std::int64_t width = x.size(1);
  with_dtype(x, [&](auto x_type) {
    with_dtype(weight, [&](auto w_type) {
      using X = decltype(x_type);
      using W = decltype(w_type);
      using Y = Wider<X, W>;
      const X* const from = x.const_data_ptr<X>();
      const W* const w = weight.const_data_ptr<W>();
      Y* const to = y.template mutable_data_ptr<Y>();
      float* const inverses = inverse_rms.template mutable_data_ptr<float>();
      at::parallel_for(0, x.size(0), grain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const X* const in = from + row * x.stride(0);
          Y* const out = to + row * width;
          const float squares = sum_over(width, [&](std::int64_t d) {
            const auto value = static_cast<float>(in[d]);
            return value * value;
          });
          const float inverse = rms_norm::inverse_rms(squares, width, static_cast<float>(eps));
          inverses[row] = inverse;
          for (std::int64_t d = 0; d < width; ++d)
            out[d] = static_cast<Y>(
                rms_norm::normalized(static_cast<float>(in[d]), inverse, static_cast<float>(w[d])));
        }
      });
    });
  });
  return {y, inverse_rms};
}

// The gradients of a run of rows; adds to `sums` what they give the weight.
template <class G, class X, class W>
struct BackwardRows {
  const G* grad;
  std::int64_t grad_stride;
  const X* x;
  std::int64_t x_stride;
  const W* weight;
  const float* inverse_rms;
  std::int64_t width;
  X* grad_x;

  void run(std::int64_t begin, std::int64_t end, float* sums) const {
    for (std::int64_t row = begin; row < end; ++row) {
      const G* const g = grad + row * grad_stride;
      const X* const in = x + row * x_stride;
      X* const out = grad_x + row * width;
      const auto of_normalized = [&](std::int64_t d) {
        return static_cast<float>(g[d]) * static_cast<float>(weight[d]);
      };
      const float inverse = inverse_rms[row];
      const float sum =
          sum_over(width, [&](std::int64_t d) { return of_normalized(d) * static_cast<float>(in[d]); });
      const float pull = rms_norm::pull(sum, width, inverse);
      for (std::int64_t d = 0; d < width; ++d) {
        const auto value = static_cast<float>(in[d]);
        out[d] = static_cast<X>(rms_norm::gradient(of_normalized(d), value, inverse, pull));
        sums[d] += static_cast<float>(g[d]) * value * inverse;
      }
    }
  }
};

// Sums of parts of the rows, then the sum of these, whatever the number of threads.
constexpr std::int64_t kParts = 64;

TwoTensors rms_norm_backward_cpu(const Tensor& grad_in, const Tensor& x_in, const Tensor& weight_in,
                                 const Tensor& inverse_in) {
  auto [grad_x, grad_weight] = rms_norm_gradients(grad_in, x_in, weight_in, inverse_in);
  const Tensor grad = rows_of(grad_in), x = rows_of(x_in);
  const Tensor weight = weight_in.contiguous(), inverse_rms = inverse_in.contiguous();
  const std::int64_t rows = x.size(0), width = x.size(1);
  const Tensor parts = at::zeros({std::min(rows, kParts), width}, grad_weight.options());
  float* const sums = parts.mutable_data_ptr<float>();
  const std::int64_t count = parts.size(0);
  with_dtype(x, [&](auto x_type) {
    with_dtype(weight, [&](auto w_type) {
      using X = decltype(x_type);
      using W = decltype(w_type);
      using G = Wider<X, W>;
      const BackwardRows<G, X, W> backward{grad.const_data_ptr<G>(),
                                           grad.stride(0),
                                           x.const_data_ptr<X>(),
                                           x.stride(0),
                                           weight.const_data_ptr<W>(),
                                           inverse_rms.const_data_ptr<float>(),
                                           width,
                                           grad_x.template mutable_data_ptr<X>()};
      at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part)
          backward.run(part * rows / count, (part + 1) * rows / count, sums + part * width);
      });
    });
  });
  float* const total = grad_weight.mutable_data_ptr<float>();
  std::fill(total, total + width, 0.0f);
  for (std::int64_t part = 0; part < count; ++part)
    for (std::int64_t d = 0; d < width; ++d) total[d] += sums[part * width + d];
  return {grad_x, grad_weight};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor y, Tensor inverse_rms)");
  m.def(
      "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor inverse_rms) "
      "-> (Tensor grad_x, Tensor grad_weight)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("rms_norm",
         [](const Tensor& x, const Tensor& weight, double) { return rms_norm_results(x, weight); });
  m.impl("rms_norm_backward", &rms_norm_gradients);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("rms_norm", &rms_norm_cpu);
  m.impl("rms_norm_backward", &rms_norm_backward_cpu);
}

}  // namespace rondo

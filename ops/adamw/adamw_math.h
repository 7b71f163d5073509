// The arithmetic of an update (ops/adamw/adamw.h), shared by CPU and CUDA: in fp32, or in fp64 for
// fp64 elements. No LibTorch.
//
// REQUIRES: includers are compiled without contraction of products and sums. Then all operations
// are + - * /, square roots and fused multiply-adds, which IEEE 754 rounds the same everywhere.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/arithmetic.h"
#include "ops/kernel/device.h"

namespace rondo {

struct AdamWOptions {
  // true: AdamW (Loshchilov and Hutter, 2019). false: Adam, decay is added to the gradient.
  bool decoupled_weight_decay = true;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;

  bool operator==(const AdamWOptions&) const = default;
};

namespace adam {

// The values of an element that have draws of their own (ops/random/stochastic_rounding.h).
enum Kind : std::uint32_t { kParameter, kExpAvg, kExpAvgSq };

constexpr std::int64_t kChunk = 16384;  // elements of a CPU task, or of a block

// Returns base^exponent; pow differs between devices.
RONDO_DEVICE inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

// The factors shared by all elements of an update.
template <class Real>
struct FactorsIn {
  Real gradient_scale;
  Real kept, added;  // kept part of the parameter, and its part added to the gradient
  Real one_minus_beta1, beta2, one_minus_beta2;
  Real minus_step_size, correction2, eps;
};
using Factors = FactorsIn<float>;

// `step` is the number of the update, from 1.
template <class Real = float>
RONDO_DEVICE inline FactorsIn<Real> factors(const AdamWOptions& o, float step, float learning_rate,
                                            float gradient_scale) {
  const auto count = static_cast<std::int64_t>(step);
  const double lr = learning_rate;
  FactorsIn<Real> f{};
  f.gradient_scale = gradient_scale;
  f.kept = o.decoupled_weight_decay ? static_cast<Real>(1 - lr * o.weight_decay) : Real(1);
  f.added = o.decoupled_weight_decay ? Real(0) : static_cast<Real>(o.weight_decay);
  f.one_minus_beta1 = static_cast<Real>(1 - o.beta1);
  f.beta2 = static_cast<Real>(o.beta2);
  f.one_minus_beta2 = static_cast<Real>(1 - o.beta2);
  f.minus_step_size = static_cast<Real>(-(lr / (1 - power(o.beta1, count))));
  f.correction2 = static_cast<Real>(sqrt(1 - power(o.beta2, count)));
  f.eps = static_cast<Real>(o.eps);
  return f;
}

template <class Real>
struct ElementIn {
  Real parameter, exp_avg, exp_avg_sq;
};
using Element = ElementIn<float>;

RONDO_DEVICE inline float root(float x) { return sqrtf(x); }
RONDO_DEVICE inline double root(double x) { return sqrt(x); }

// `scaled` is the gradient divided by gradient_scale. A caller may omit a division by 1, which
// keeps every bit.
template <class Real>
RONDO_DEVICE inline ElementIn<Real> updated(const FactorsIn<Real>& f, ElementIn<Real> old, Real scaled) {
  const Real g = fused(old.parameter, f.added, scaled);
  ElementIn<Real> now{};
  now.exp_avg = fused(f.one_minus_beta1, g - old.exp_avg, old.exp_avg);
  now.exp_avg_sq = fused(f.one_minus_beta2 * g, g, old.exp_avg_sq * f.beta2);
  const Real denominator = root(now.exp_avg_sq) / f.correction2 + f.eps;
  now.parameter = old.parameter * f.kept + f.minus_step_size * now.exp_avg / denominator;
  return now;
}

}  // namespace adam
}  // namespace rondo

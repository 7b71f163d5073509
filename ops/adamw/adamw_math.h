// The arithmetic of an update (ops/adamw/adamw.h), in fp32 or, of fp64 elements, in fp64: what CPU and CUDA
// share. No LibTorch.
//
// REQUIRES: whoever includes it is compiled without contraction of products and sums. Then + - * /, square
// roots and fused multiply-adds are all there is, which IEEE 754 rounds alike everywhere.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

struct AdamWOptions {
  bool decoupled_weight_decay =
      true;  // AdamW (Loshchilov and Hutter, 2019); false: Adam, decay added to the gradient
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;

  bool operator==(const AdamWOptions&) const = default;
};

namespace adam {

constexpr std::int64_t kChunk = 16384;  // elements that a task of the CPU, or a block, takes

// base^exponent; pow differs between devices.
RONDO_DEVICE inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

// What all elements of an update have in common.
template <class Real>
struct FactorsIn {
  Real gradient_scale;
  Real kept, added;  // how much of the parameter stays, and how much is added to its gradient
  Real one_minus_beta1, beta2, one_minus_beta2;
  Real minus_step_size, correction2, eps;
};
using Factors = FactorsIn<float>;

// The update is the step-th, from 1.
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

RONDO_DEVICE inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
RONDO_DEVICE inline double fused(double a, double b, double c) { return fma(a, b, c); }
RONDO_DEVICE inline float root(float x) { return sqrtf(x); }
RONDO_DEVICE inline double root(double x) { return sqrt(x); }

template <class Real>
RONDO_DEVICE inline ElementIn<Real> updated(const FactorsIn<Real>& f, ElementIn<Real> old, Real gradient) {
  const Real g = fused(old.parameter, f.added, gradient / f.gradient_scale);
  ElementIn<Real> now{};
  now.exp_avg = fused(f.one_minus_beta1, g - old.exp_avg, old.exp_avg);
  now.exp_avg_sq = fused(f.one_minus_beta2 * g, g, old.exp_avg_sq * f.beta2);
  const Real denominator = root(now.exp_avg_sq) / f.correction2 + f.eps;
  now.parameter = old.parameter * f.kept + f.minus_step_size * now.exp_avg / denominator;
  return now;
}

}  // namespace adam
}  // namespace rondo

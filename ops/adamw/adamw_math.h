// The arithmetic of an update (ops/adamw/adamw.h), in fp32: what CPU and CUDA share. No LibTorch.
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
struct Factors {
  float gradient_scale;
  float kept, added;  // how much of the parameter stays, and how much is added to its gradient
  float one_minus_beta1, beta2, one_minus_beta2;
  float minus_step_size, correction2, eps;
};

// The update is the step-th, from 1.
RONDO_DEVICE inline Factors factors(const AdamWOptions& o, float step, float learning_rate,
                                    float gradient_scale) {
  const auto count = static_cast<std::int64_t>(step);
  const double lr = learning_rate;
  Factors f{};
  f.gradient_scale = gradient_scale;
  f.kept = o.decoupled_weight_decay ? static_cast<float>(1 - lr * o.weight_decay) : 1.0f;
  f.added = o.decoupled_weight_decay ? 0.0f : static_cast<float>(o.weight_decay);
  f.one_minus_beta1 = static_cast<float>(1 - o.beta1);
  f.beta2 = static_cast<float>(o.beta2);
  f.one_minus_beta2 = static_cast<float>(1 - o.beta2);
  f.minus_step_size = static_cast<float>(-(lr / (1 - power(o.beta1, count))));
  f.correction2 = static_cast<float>(sqrt(1 - power(o.beta2, count)));
  f.eps = static_cast<float>(o.eps);
  return f;
}

struct Element {
  float parameter, exp_avg, exp_avg_sq;
};

RONDO_DEVICE inline Element updated(const Factors& f, Element old, float gradient) {
  const float g = fmaf(old.parameter, f.added, gradient / f.gradient_scale);
  Element now{};
  now.exp_avg = fmaf(f.one_minus_beta1, g - old.exp_avg, old.exp_avg);
  now.exp_avg_sq = fmaf(f.one_minus_beta2 * g, g, old.exp_avg_sq * f.beta2);
  const float denominator = sqrtf(now.exp_avg_sq) / f.correction2 + f.eps;
  now.parameter = old.parameter * f.kept + f.minus_step_size * now.exp_avg / denominator;
  return now;
}

}  // namespace adam
}  // namespace rondo

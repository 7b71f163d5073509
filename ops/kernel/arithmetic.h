// Arithmetic of kernels, for hosts and devices. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

// Returns a * b + c, rounded once.
RONDO_DEVICE inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
RONDO_DEVICE inline double fused(double a, double b, double c) { return fma(a, b, c); }

namespace cuda {

// Division by a number that is known before a kernel is launched: a multiplication and a shift. A
// GPU divides integers in software, 64-bit ones by a call. Source: Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994.
class Divisor {
 public:
  // REQUIRES: 0 < divisor < 2^31.
  explicit Divisor(std::int64_t divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    while ((std::uint64_t{1} << shift_) < divisor_) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - divisor_;
    multiplier_ = static_cast<std::uint32_t>((excess << 32) / divisor_ + 1);
  }

  struct Division {
    std::uint32_t quotient, remainder;
  };
  // REQUIRES: number < 2^31.
  RONDO_DEVICE Division divide(std::uint32_t number) const {
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(number) * multiplier_) >> 32);
    const std::uint32_t quotient = (high + number) >> shift_;
    return {quotient, number - quotient * divisor_};
  }

 private:
  std::uint32_t divisor_, multiplier_ = 0, shift_ = 0;
};

// Divides many numbers by one, with the bits of a division in a third of its instructions: two
// corrections of a product by its exact remainder, as CUDA divides after it has computed the
// reciprocal. Where a remainder can be inexact, it divides.
struct FloatDivisor {
  float divisor, reciprocal;
  bool is_moderate;  // 2^-30 to 2^30

  explicit RONDO_DEVICE FloatDivisor(float d)
      : divisor(d), reciprocal(1 / d), is_moderate(d >= 0x1p-30f && d <= 0x1p30f) {}
  RONDO_DEVICE float divide(float x) const {
    const float size = fabsf(x);
    const bool is_exact = is_moderate && size <= 0x1p60f && (size >= 0x1p-60f || size == 0);
    if (!is_exact) return x / divisor;
    float quotient = x * reciprocal;
    quotient = fmaf(fmaf(-divisor, quotient, x), reciprocal, quotient);
    quotient = fmaf(fmaf(-divisor, quotient, x), reciprocal, quotient);
    return size == 0 ? x : quotient;  // keeps the sign of zero
  }
};

}  // namespace cuda
}  // namespace rondo

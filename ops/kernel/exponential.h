// e^x for loops that a compiler vectorizes: no call, no table, no branch. No LibTorch.
//
// In f32 within 1 ulp if the result is a normal number; infinite above 88.73, 0 below -104, a nan
// for a nan. On CUDA and in f64 it is the library's exp.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, by the constants of Cody and Waite (1980). e^r is a
// polynomial (Moshier's Cephes, expf). 2^n is the product of two factors, because n is from -150 to
// 128.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

RONDO_DEVICE inline double exponential(double x) { return exp(x); }

#ifdef __CUDACC__
RONDO_DEVICE inline float exponential(float x) { return expf(x); }
#else
// 2^n, n in [-126, 127].
inline float power_of_two(std::int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

inline float exponential(float x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: a sum with it has no bits below 1
  const float above = x < -104.0F ? -104.0F : x;
  const float clamped = above > 89.0F ? 89.0F : above;
  const float rounded = clamped * 1.44269504088896341F + kRound;
  const float n = rounded - kRound;
  const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e_r = p * (r * r) + r + 1.0F;
  const std::int32_t whole = std::bit_cast<std::int32_t>(rounded) - std::bit_cast<std::int32_t>(kRound);
  const std::int32_t half = whole >> 1;
  return e_r * power_of_two(half) * power_of_two(whole - half);
}
#endif

}  // namespace rondo

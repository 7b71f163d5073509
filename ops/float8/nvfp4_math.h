// The arithmetic of ops/float8/nvfp4.h, shared by CPU and CUDA. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/float8/float8_math.h"
#include "ops/kernel/device.h"
#include "ops/random/stochastic_rounding.h"

namespace rondo::nvfp4 {

constexpr std::int64_t kPiece = 16;  // numbers of a row that share a scale
constexpr float kLargest = 6, kLargestScale = 448, kLeastScale = 0.015625F, kLargestFloat = 3.40282347e38F;

// Return the lesser and the greater of two numbers. REQUIRES: no nans. On a CPU, fmin and fmax are
// function calls, so loops with them are not vectorized.
RONDO_DEVICE inline float lesser(float a, float b) {
#ifdef __CUDA_ARCH__
  return std::fmin(a, b);
#else
  return b < a ? b : a;
#endif
}
RONDO_DEVICE inline float greater(float a, float b) {
#ifdef __CUDA_ARCH__
  return std::fmax(a, b);
#else
  return a < b ? b : a;
#endif
}

// Rounds a magnitude of at most 6 to a number of E2M1, whose spacing is 0.5 below 2, 1 below 4 and
// 2 above: to nearest, ties to even, or with a draw below 2^16.
RONDO_DEVICE inline float spacing(float magnitude) {
  return magnitude < 2 ? 0.5F : magnitude < 4 ? 1.0F : 2.0F;
}
constexpr float kWhole = 8388608;  // floats from here to twice as much are 1 apart
RONDO_DEVICE inline float nearest(float magnitude) {
  const float shift = spacing(magnitude) * kWhole;
  return magnitude + shift - shift;
}
RONDO_DEVICE inline float stochastic(float magnitude, std::uint32_t draw) {
  const float step = spacing(magnitude), per_step = magnitude < 2 ? 2.0F : magnitude < 4 ? 1.0F : 0.5F;
  const float steps = magnitude * per_step, near = steps + kWhole - kWhole;
  const float below = near > steps ? near - 1 : near;
  return (static_cast<float>(static_cast<std::int32_t>(draw)) < (steps - below) * 65536 ? below + 1 : below) *
         step;
}

// Rounds a normal number of E4M3's range to its nearest number, ties to even.
RONDO_DEVICE inline float rounded_scale(float x) {
  const std::uint32_t bits = float8::bits_of(x);
  return float8::float_of((bits + 0x7ffff + ((bits >> 20) & 1)) & 0xfff00000);
}

// Returns 1 / the scale of a matrix with this largest magnitude. Of a matrix of zeros it is 1. Of
// tiny numbers it is finite.
RONDO_DEVICE inline float encode_of(float largest) {
  return largest == 0 ? 1 : lesser(kLargestScale * kLargest / largest, kLargestFloat);
}

// Returns the scale of a block whose largest magnitude is `most`.
RONDO_DEVICE inline float scale_of(float most, float encode) {
  const float wanted = lesser(greater(most / kLargest * encode, kLeastScale), kLargestScale);
  return rounded_scale(wanted) * (1 / encode);
}
RONDO_DEVICE inline float factor_of(float scale) { return lesser(1 / scale, kLargestFloat); }

RONDO_DEVICE inline float magnitude_of(float x) { return lesser(std::fabs(x), kLargest); }
// Returns a number of E2M1, which is 0 or a normal number of E4M3, with the sign of x.
RONDO_DEVICE inline std::uint8_t with_sign_of(float x, float magnitude) {
  constexpr std::uint32_t kBias = 127 - 7;  // of f32's exponents over those of E4M3
  const std::uint32_t sign = float8::bits_of(x) >> 24 & 0x80, bits = float8::bits_of(magnitude) >> 20;
  return static_cast<std::uint8_t>(sign | (bits == 0 ? 0 : bits - (kBias << 3)));
}
// Returns the number of E2M1 that an element times the factor of its block rounds to: to nearest,
// or with a draw below 2^16.
RONDO_DEVICE inline std::uint8_t number_of(float x) { return with_sign_of(x, nearest(magnitude_of(x))); }
RONDO_DEVICE inline std::uint8_t number_of(float x, std::uint32_t draw) {
  return with_sign_of(x, stochastic(magnitude_of(x), draw));
}

}  // namespace rondo::nvfp4

// The arithmetic of ops/float8/float8.h, shared by CPU and CUDA. No LibTorch.
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/kernel/device.h"

namespace rondo::float8 {

// One sign bit, then exponent and mantissa bits (OCP 8-bit Floating Point Specification, 2023).
// E4M3 has one NaN and no infinities.
enum class Format : std::uint8_t { e4m3, e5m2 };

RONDO_DEVICE inline double largest(Format format) { return format == Format::e4m3 ? 448 : 57344; }

RONDO_DEVICE inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
RONDO_DEVICE inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// Returns the factor of a block's numbers before rounding. It maps the largest magnitude, `most`,
// to the format's largest number; or it is the power of two below that factor.
RONDO_DEVICE inline float factor_of(double most, Format format, bool power_of_two) {
  constexpr double kLeast = 1e-12;
  const auto factor = static_cast<float>(largest(format) / (most < kLeast ? kLeast : most));
  return power_of_two ? float_of(bits_of(factor) & 0xff800000U) : factor;
}

// Returns the factor of a block of MXFP8: 2^(8 - e) for a largest magnitude in [2^e, 2^(e + 1)). It
// is a normal number. A block with a nan or an infinity has the factor 0.
RONDO_DEVICE inline float mx_factor(float most) {
  const auto exponent = static_cast<std::int32_t>(bits_of(most) >> 23), factor = 262 - exponent;
  return exponent == 255 ? 0 : float_of(static_cast<std::uint32_t>(factor > 253 ? 253 : factor) << 23);
}

// Rounds to the nearest number of the format, ties to even, and saturates at the largest number.
// There is one NaN.
template <Format format>
RONDO_DEVICE inline std::uint8_t rounded(float x) {
  constexpr bool e4m3 = format == Format::e4m3;
  constexpr std::uint32_t dropped = e4m3 ? 20 : 21, bias = e4m3 ? 7 : 15;
  const std::uint32_t bits = bits_of(x), sign = (bits >> 24) & 0x80, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7f;
  const std::uint32_t most = bits_of(e4m3 ? 448.0F : 57344.0F);
  if (magnitude >= most) return static_cast<std::uint8_t>(sign | (e4m3 ? 0x7e : 0x7b));
  // Below the smallest normal number, numbers are evenly spaced. The sum with a float whose last
  // place is that spacing rounds correctly.
  if (magnitude < ((128 - bias) << 23)) {
    const std::uint32_t magic = (127 - bias + 1 + dropped) << 23;
    const std::uint32_t sum = bits_of(float_of(magnitude) + float_of(magic));
    return static_cast<std::uint8_t>(sign | (sum - magic));
  }
  const std::uint32_t even = magnitude + ((1U << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1);
  return static_cast<std::uint8_t>(sign | ((even - ((127 - bias) << 23)) >> dropped));
}

// Returns what the bits of a number stand for.
template <Format format>
RONDO_DEVICE inline float widened(std::uint8_t number) {
  constexpr bool e4m3 = format == Format::e4m3;
  constexpr std::uint32_t dropped = e4m3 ? 20 : 21, bias = e4m3 ? 7 : 15;
  const std::uint32_t sign = static_cast<std::uint32_t>(number & 0x80) << 24, magnitude = number & 0x7f;
  // The format's smallest number, of which subnormal numbers are multiples.
  const float least = float_of((128 - bias - (23 - dropped)) << 23);
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * least;
  std::uint32_t bits = (magnitude << dropped) + ((127 - bias) << 23);
  bits = magnitude < (1U << (23 - dropped)) ? bits_of(small) : bits;
  if constexpr (e4m3) {
    bits = magnitude == 0x7f ? 0x7fc00000 : bits;
  } else {
    bits = magnitude > 0x7c ? 0x7fc00000 : bits;
    bits = magnitude == 0x7c ? 0x7f800000 : bits;
  }
  return float_of(sign | bits);
}

}  // namespace rondo::float8

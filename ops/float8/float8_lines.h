// Computes the largest magnitude of contiguous numbers on the CPU, rounds them to float8, and
// widens them. float8_lines.cuh is the CUDA counterpart. The compiler vectorizes these loops only
// where it inlines them into the functions of ops/kernel/parallel_rows.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "ops/float8/float8_math.h"
#include "ops/kernel/element.h"
#include "ops/kernel/parallel_rows.h"

namespace rondo {

// The bits of an element as an integer. Magnitudes have the order of their bits, and nans are above
// infinities.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, std::int16_t,
                                  std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;

template <class T>
BitsOf<T> bits_of_element(const T& x) {
  BitsOf<T> bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// Returns the magnitude of these bits.
template <class T>
SumOf<T> magnitude_of(BitsOf<T> bits) {
  if constexpr (sizeof(T) == 2)
    return float8::float_of(static_cast<std::uint32_t>(bits) << 16);
  else
    return std::bit_cast<T>(bits);
}

enum class Nans : bool { skipped, kept };

// Returns the bits of the largest magnitude; nans are the largest, or do not count.
template <class T>
BitsOf<T> largest_bits(const T* x, std::int64_t count, Nans nans) {
  using Bits = BitsOf<T>;
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  const Bits infinity = bits_of_element(static_cast<T>(std::numeric_limits<float>::infinity())),
             limit = nans == Nans::kept ? kMagnitude : infinity;
  Bits largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto bits = static_cast<Bits>(bits_of_element(x[i]) & kMagnitude);
    bits = bits > limit ? Bits{0} : bits;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <float8::Format format, class T>
void round_line(const T* x, std::int64_t count, float factor, std::uint8_t* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = float8::rounded<format>(
        static_cast<float>(static_cast<SumOf<T>>(x[i]) * static_cast<SumOf<T>>(factor)));
}

template <float8::Format format, class T>
void widen_line(const std::uint8_t* x, std::int64_t count, T* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(float8::widened<format>(x[i]));
}

// Calls f(elements, count) for parts that partition x, in parallel, and returns the results. x has
// no gaps, or is a matrix with dense rows or dense columns.
template <class T, class F>
auto results_of_parts(const at::Tensor& x, const F& f) {
  const bool is_line = x.is_non_overlapping_and_dense();
  const std::int64_t line = is_line ? 1 : x.stride(1) == 1 ? 0 : 1;
  const std::int64_t length = is_line ? 4096 : x.size(1 - line), stride = is_line ? length : x.stride(line),
                     parts = is_line ? (x.numel() + length - 1) / length : x.size(line);
  const T* const from = x.const_data_ptr<T>();
  std::vector<decltype(f(from, length))> results(static_cast<std::size_t>(parts));
  auto* const to = results.data();
  for_each_row(parts, length, [=, count = x.numel()](std::int64_t i) {
    to[i] = f(from + i * stride, is_line ? std::min(length, count - i * length) : length);
  });
  return results;
}

// Returns the largest magnitude of x.
template <class T>
SumOf<T> largest_magnitude(const at::Tensor& x, Nans nans) {
  const auto parts = results_of_parts<T>(
      x, [nans](const T* from, std::int64_t count) { return largest_bits(from, count, nans); });
  return magnitude_of<T>(*std::max_element(parts.begin(), parts.end()));
}

}  // namespace rondo

// Converts rows of operands and results between memory and the layouts of the tiles. Included only
// where attention_query_tile.h is.
#pragma once

#include <cstring>
#include <type_traits>

#include "ops/attention/attention_lanes.h"

namespace rondo::attention_tiles {
namespace {

template <class C>
std::int64_t padded(std::int64_t width) {
  return (width + kLanes<C> - 1) / kLanes<C> * kLanes<C>;
}

inline float widened(Bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline float widened(float x) { return x; }
inline double widened(double x) { return x; }

// Converts to an element of packed rows: bf16 unchanged, or widened.
template <class C, class T>
inline C packed(T x) {
  if constexpr (std::is_same_v<C, T>)
    return x;
  else
    return widened(x);
}

// Rounds to the nearest bf16, ties to even. NaN stays NaN.
inline Vector<float> rounded(Vector<float> x) {
  typedef std::uint32_t Bits __attribute__((vector_size(kVectorBytes)));
  const Bits bits = reinterpret_cast<Bits>(x), nearest = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U;
  return x == x ? reinterpret_cast<Vector<float>>(nearest) : x;
}

// Stores a vector of numbers as elements.
template <class T>
inline void store(Vector<SumOf<T>> x, T* to) {
  if constexpr (sizeof(T) == 2) {
    typedef std::uint32_t Bits __attribute__((vector_size(kVectorBytes)));
    typedef std::uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
    const Halves halves = __builtin_convertvector(reinterpret_cast<Bits>(rounded(x)) >> 16, Halves);
    std::memcpy(to, &halves, sizeof(halves));
  } else {
    std::memcpy(to, &x, sizeof(x));
  }
}

// Writes a row of `width` numbers, padded to vectors, times a factor.
template <class T>
inline void write_row(const SumOf<T>* numbers, SumOf<T> factor, std::int64_t width, T* to) {
  constexpr int kSide = kLanes<SumOf<T>>;
  std::int64_t d = 0;
  for (; d + kSide <= width; d += kSide) store(lanes(numbers + d) * factor, to + d);
  if (d == width) return;
  T rest[kSide];
  store(lanes(numbers + d) * factor, rest);
  std::memcpy(to + d, rest, static_cast<std::size_t>(width - d) * sizeof(T));
}

// Prefetches a row. Neighboring rows of a head are far apart in memory, so hardware does not
// prefetch them.
template <class T>
inline void prefetch(const T* row, std::int64_t width) {
  for (std::int64_t d = 0; d < width; d += 64 / std::int64_t{sizeof(T)}) __builtin_prefetch(row + d);
}

// Copies rows [first, end) to `count` rows of `padded_width`; missing rows are zero. Prefetches the
// same number of rows after them, up to `last`.
template <class T, class C>
void copy_rows(const Rows<const T>& rows, const std::int32_t* order, std::int64_t first, std::int64_t end,
               std::int64_t last, std::int64_t count, std::int64_t width, std::int64_t padded_width, C* to) {
  const auto row = [&](std::int64_t at) { return rows[order == nullptr ? at : order[at]]; };
  for (std::int64_t i = first; i < first + count; ++i, to += padded_width) {
    const std::int64_t own = i < end ? width : 0;
    const T* const from = own > 0 ? row(i) : nullptr;
    for (std::int64_t d = 0; d < own; ++d) to[d] = packed<C>(from[d]);
    for (std::int64_t d = own; d < padded_width; ++d) to[d] = C{};
    if (i + count < last) prefetch(row(i + count), width);
  }
}

// to[c][r] = from[r][c], with as many rows and columns as a vector has lanes. Swaps off-diagonal
// blocks, first of size one, then of doubled sizes.
template <class C>
inline void transpose(const C* from, std::int64_t from_distance, C* to, std::int64_t to_distance) {
  constexpr int kSide = kLanes<C>;
  Vector<C> x[kSide];
  for (int r = 0; r < kSide; ++r) std::memcpy(&x[r], from + r * from_distance, kVectorBytes);
#pragma GCC unroll 4
  for (int step = 1; step < kSide; step *= 2) {
    typename LanesOf<C>::Integers upper, lower;
    for (int i = 0; i < kSide; ++i) {
      upper[i] = (i & step) != 0 ? kSide + i - step : i;
      lower[i] = (i & step) != 0 ? kSide + i : i + step;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kSide; ++r) {
      if ((r & step) != 0) continue;
      const Vector<C> one = x[r], other = x[r + step];
      x[r] = __builtin_shuffle(one, other, upper);
      x[r + step] = __builtin_shuffle(one, other, lower);
    }
  }
  for (int r = 0; r < kSide; ++r) std::memcpy(to + r * to_distance, &x[r], kVectorBytes);
}

// Writes per-query numbers, [width][kQueries], times a factor each, to the rows of the queries.
template <class T, class C>
void write_rows(const C* numbers, const C* factors, std::int64_t queries, std::int64_t width,
                const Rows<T>& rows, std::int64_t first) {
  constexpr int kSide = kLanes<C>;
  for (std::int64_t i = 0; i < queries; i += kSide)
    for (std::int64_t d = 0; d < width; d += kSide) {
      alignas(kVectorBytes) C block[kSide][kSide];
      transpose(numbers + d * kQueries + i, kQueries, block[0], kSide);
      for (std::int64_t r = 0; r < kSide && i + r < queries; ++r) {
        write_row(block[r], factors[i + r], width - d < kSide ? width - d : kSide, rows[first + i + r] + d);
      }
    }
}

// Sums of keys are rows of both gradients, padded to vectors.
template <class T>
std::size_t key_sums_bytes(std::int64_t keys, std::int64_t width, std::int64_t value_width) {
  using C = SumOf<T>;
  return static_cast<std::size_t>((keys + kKeys - 1) / kKeys * kKeys *
                                  (padded<C>(width) + padded<C>(value_width))) *
         sizeof(C);
}

template <class T>
void write_key_sums(const SumOf<T>* key_sums, std::int64_t i, double scale, std::int64_t width,
                    std::int64_t value_width, T* grad_k, T* grad_v) {
  using C = SumOf<T>;
  const C* const k = key_sums + i * (padded<C>(width) + padded<C>(value_width));
  const C* const v = k + padded<C>(width);
  write_row(k, static_cast<C>(scale), width, grad_k);
  write_row(v, C(1), value_width, grad_v);
}

// Returns the dot product. It keeps one sum per lane and adds the lanes in order at the end.
template <class T>
SumOf<T> dot(const T* one, const T* other, std::int64_t width) {
  using C = SumOf<T>;
  C sums[kLanes<C>] = {}, result = 0;
  std::int64_t d = 0;
  for (; d + kLanes<C> <= width; d += kLanes<C>)
    for (int i = 0; i < kLanes<C>; ++i) sums[i] += widened(one[d + i]) * widened(other[d + i]);
  for (int i = 0; d + i < width; ++i) sums[i] += widened(one[d + i]) * widened(other[d + i]);
  for (int i = 0; i < kLanes<C>; ++i) result += sums[i];
  return result;
}

}  // namespace
}  // namespace rondo::attention_tiles

// Vectors of one instruction set, included only by attention_tiles.cpp. RONDO_TILES names the set
// and so the namespace. With the compiler's vector extensions, one source serves all sets.
#pragma once

#include <cstdint>

#include "ops/attention/attention_tiles.h"

namespace rondo::attention_tiles {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kRegisterRows = 8;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kRegisterRows = 4;
#else
constexpr int kVectorBytes = 16, kRegisterRows = 4;
#endif

template <class C>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float Vector __attribute__((vector_size(kVectorBytes), may_alias));
  typedef std::int32_t Integers __attribute__((vector_size(kVectorBytes), may_alias));
  using Integer = std::int32_t;
};
template <>
struct LanesOf<double> {
  typedef double Vector __attribute__((vector_size(kVectorBytes), may_alias));
  typedef std::int64_t Integers __attribute__((vector_size(kVectorBytes), may_alias));
  using Integer = std::int64_t;
};
template <class C>
using Vector = typename LanesOf<C>::Vector;
template <class C>
constexpr int kLanes = kVectorBytes / sizeof(C);

template <class C>
inline Vector<C>& lanes(C* at) {
  return *reinterpret_cast<Vector<C>*>(at);
}
template <class C>
inline const Vector<C>& lanes(const C* at) {
  return *reinterpret_cast<const Vector<C>*>(at);
}

template <class C>
constexpr C log2_e() {
  return static_cast<C>(1.4426950408889634073599246810018921L);
}
inline float log2(float x) { return __builtin_log2f(x); }
inline double log2(double x) { return __builtin_log2(x); }
template <class C>
constexpr C infinity() {
  return static_cast<C>(__builtin_inf());
}

// 2^x in each lane. ops/kernel/exponential.h has e^x, for results down to the smallest number and
// up to infinity. Weights of scores in units of log 2 need neither that range nor a reduction by
// log 2. f32: an error of at most 2 units in the last place for x from -126 to 127, zero below,
// exactly 1 at 0, and NaN for NaN. x is split into a whole number, which becomes an exponent, and a
// rest from -1/2 to 1/2. For the rest, 1 + x * (a polynomial of degree 5) is within 1e-8.
inline Vector<float> exp2(Vector<float> x) {
  using Integers = LanesOf<float>::Integers;
  constexpr float kRound = 12582912.0F + 127.0F;  // 1.5 * 2^23: the last bit of a sum is 1
  const Vector<float> shifted = x + kRound, rest = x - (shifted - kRound);
  Vector<float> y = rest * 0x1.44138ap-13F + 0x1.5f0890p-10F;
  y = y * rest + 0x1.3b2a54p-7F;
  y = y * rest + 0x1.c6af6cp-5F;
  y = y * rest + 0x1.ebfbe0p-3F;
  y = y * rest + 0x1.62e430p-1F;
  y = y * rest + 1.0F;
  const Vector<float> power = reinterpret_cast<Vector<float>>(reinterpret_cast<Integers>(shifted) << 23);
  return x < -126.0F ? Vector<float>{} : y * power;
}
inline Vector<double> exp2(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_exp2(x[i]);
  return x;
}

// out[n][m] (+)= sum over k of a[n * a_row + k * a_step] * b[k * ldb + m], in the order of k.
template <class C, int kRows, int kColumns>
inline void product_block(std::int64_t depth, const C* a, std::int64_t a_row, std::int64_t a_step, const C* b,
                          std::int64_t ldb, C* out, std::int64_t ldo, bool add) {
  Vector<C> sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) sums[r][c] = add ? lanes(out + r * ldo + c * kLanes<C>) : Vector<C>{};
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector<C> row[kColumns];
    for (int c = 0; c < kColumns; ++c) row[c] = lanes(b + k * ldb + c * kLanes<C>);
    for (int r = 0; r < kRows; ++r) {
      const C factor = a[r * a_row + k * a_step];
      for (int c = 0; c < kColumns; ++c) sums[r][c] += factor * row[c];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) lanes(out + r * ldo + c * kLanes<C>) = sums[r][c];
}

template <class C, int kRows, int kColumns>
inline void product_columns(std::int64_t rows, std::int64_t depth, const C* a, std::int64_t a_row,
                            std::int64_t a_step, const C* b, std::int64_t ldb, C* out, std::int64_t ldo,
                            bool add) {
  std::int64_t n = 0;
  for (; n + kRows <= rows; n += kRows)
    product_block<C, kRows, kColumns>(depth, a + n * a_row, a_row, a_step, b, ldb, out + n * ldo, ldo, add);
  if constexpr (kRows > 1)
    if (n < rows)
      product_columns<C, kRows / 2, kColumns>(rows - n, depth, a + n * a_row, a_row, a_step, b, ldb,
                                              out + n * ldo, ldo, add);
}

// The product for m from 0 to `columns`, a multiple of the lanes of a vector.
template <class C>
void product(std::int64_t rows, std::int64_t depth, std::int64_t columns, const C* a, std::int64_t a_row,
             std::int64_t a_step, const C* b, std::int64_t ldb, C* out, std::int64_t ldo, bool add) {
  std::int64_t m = 0;
  for (; m + 2 * kLanes<C> <= columns; m += 2 * kLanes<C>)
    product_columns<C, kRegisterRows, 2>(rows, depth, a, a_row, a_step, b + m, ldb, out + m, ldo, add);
  if (m < columns)
    product_columns<C, 2 * kRegisterRows, 1>(rows, depth, a, a_row, a_step, b + m, ldb, out + m, ldo, add);
}

}  // namespace
}  // namespace rondo::attention_tiles

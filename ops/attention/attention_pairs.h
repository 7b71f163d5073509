// Products of bf16 in pairs, included only by attention_pairs.cpp. They use AMX tiles if compiled
// for them, else AVX-512 dot products. Both multiply [rows][depth] by [depth / 2][columns][2]. Also
// converts rows to these layouts.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "ops/attention/attention_rows.h"

namespace rondo::attention_tiles {
namespace {

using Pair = std::uint32_t;  // two bf16; the lower half is the first

constexpr int kSide = 16;   // rows of an AMX tile, and lanes of f32
constexpr int kDepth = 32;  // bf16 elements in a row of a tile

inline std::int64_t up_to(std::int64_t multiple, std::int64_t x) {
  return (x + multiple - 1) / multiple * multiple;
}

#ifdef __AMX_BF16__

// During its lifetime, this thread's tiles have the shape of the products: 16 rows of 64 bytes
// each. The destructor restores the previous shapes (oneDNN keeps its configuration between calls).
class ProductScope {
 public:
  ProductScope() {
    _tile_storeconfig(before_);
    alignas(64) std::uint8_t shape[64] = {1};  // palette 1
    for (int tile = 0; tile < 8; ++tile) shape[16 + 2 * tile] = 64, shape[48 + tile] = kSide;
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(shape);
  }
  ~ProductScope() {
    if (before_[0] == 0)
      _tile_release();
    else
      _tile_loadconfig(before_);
  }
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;

 private:
  alignas(64) std::uint8_t before_[64];
};

// kRows and kColumns are 1 or 2 tiles. Tiles 0 to 3 hold sums, 4 and 5 a, 6 and 7 b.
template <int kRows, int kColumns>
inline void product_block(std::int64_t depth, const Bf16* a, std::int64_t lda, const Pair* b,
                          std::int64_t ldb, float* out, std::int64_t ldo, bool add) {
  const std::int64_t out_bytes = ldo * 4, a_bytes = lda * 2, b_bytes = ldb * 4;
  float* const out2 = out + kSide * ldo;
  if (add) {
    _tile_loadd(0, out, out_bytes);
    if constexpr (kColumns == 2) _tile_loadd(1, out + kSide, out_bytes);
    if constexpr (kRows == 2) _tile_loadd(2, out2, out_bytes);
    if constexpr (kRows == 2 && kColumns == 2) _tile_loadd(3, out2 + kSide, out_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kColumns == 2) _tile_zero(1);
    if constexpr (kRows == 2) _tile_zero(2);
    if constexpr (kRows == 2 && kColumns == 2) _tile_zero(3);
  }
  for (std::int64_t k = 0; k < depth; k += kDepth) {
    const Pair* const b_tile = b + k / 2 * ldb;
    _tile_loadd(4, a + k, a_bytes);
    _tile_loadd(6, b_tile, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, b_tile + kSide, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, a + kSide * lda + k, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kRows == 2 && kColumns == 2) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, out_bytes);
  if constexpr (kColumns == 2) _tile_stored(1, out + kSide, out_bytes);
  if constexpr (kRows == 2) _tile_stored(2, out2, out_bytes);
  if constexpr (kRows == 2 && kColumns == 2) _tile_stored(3, out2 + kSide, out_bytes);
}

template <int kRows>
inline void product_rows(std::int64_t depth, std::int64_t columns, const Bf16* a, std::int64_t lda,
                         const Pair* b, std::int64_t ldb, float* out, std::int64_t ldo, bool add) {
  std::int64_t m = 0;
  for (; m + 2 * kSide <= columns; m += 2 * kSide)
    product_block<kRows, 2>(depth, a, lda, b + m, ldb, out + m, ldo, add);
  if (m < columns) product_block<kRows, 1>(depth, a, lda, b + m, ldb, out + m, ldo, add);
}

// out[n][m] (+)= sum over k of a[n][k] * b[k][m]. rows and columns are multiples of kSide, depth of
// kDepth.
inline void pair_product(std::int64_t rows, std::int64_t depth, std::int64_t columns, const Bf16* a,
                         std::int64_t lda, const Pair* b, std::int64_t ldb, float* out, std::int64_t ldo,
                         bool add) {
  __asm__ volatile("" ::: "memory");  // the compiler does not know what the tiles read
  std::int64_t n = 0;
  for (; n + 2 * kSide <= rows; n += 2 * kSide)
    product_rows<2>(depth, columns, a + n * lda, lda, b, ldb, out + n * ldo, ldo, add);
  if (n < rows) product_rows<1>(depth, columns, a + n * lda, lda, b, ldb, out + n * ldo, ldo, add);
  __asm__ volatile("" ::: "memory");
}

#else

class ProductScope {};

template <int kColumns>
inline void product_block(std::int64_t depth, const Bf16* a, std::int64_t lda, const Pair* b,
                          std::int64_t ldb, float* out, std::int64_t ldo, bool add) {
  constexpr int kRows = 8;
  __m512 sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c)
      sums[r][c] = add ? _mm512_load_ps(out + r * ldo + c * kSide) : _mm512_setzero_ps();
  for (std::int64_t k = 0; k < depth / 2; ++k) {
    __m512bh row[kColumns];
    for (int c = 0; c < kColumns; ++c) row[c] = (__m512bh)_mm512_load_si512(b + k * ldb + c * kSide);
    for (int r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, a + r * lda + 2 * k, sizeof(pair));
      for (int c = 0; c < kColumns; ++c)
        sums[r][c] = _mm512_dpbf16_ps(sums[r][c], (__m512bh)_mm512_set1_epi32(pair), row[c]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) _mm512_store_ps(out + r * ldo + c * kSide, sums[r][c]);
}

// out[n][m] (+)= sum over k of a[n][k] * b[k][m]. rows and columns are multiples of kSide, depth of
// kDepth.
inline void pair_product(std::int64_t rows, std::int64_t depth, std::int64_t columns, const Bf16* a,
                         std::int64_t lda, const Pair* b, std::int64_t ldb, float* out, std::int64_t ldo,
                         bool add) {
  for (std::int64_t n = 0; n < rows; n += 8) {
    std::int64_t m = 0;
    for (; m + 2 * kSide <= columns; m += 2 * kSide)
      product_block<2>(depth, a + n * lda, lda, b + m, ldb, out + n * ldo + m, ldo, add);
    if (m < columns) product_block<1>(depth, a + n * lda, lda, b + m, ldb, out + n * ldo + m, ldo, add);
  }
}

#endif

// Rounds two vectors of f32 to one of bf16: to nearest, ties to even. Numbers below 2^-126 become
// zero.
inline __m512i rounded_halves(Vector<float> lower, Vector<float> upper) {
  return (__m512i)_mm512_cvtne2ps_pbh((__m512)upper, (__m512)lower);
}
// Rounds to pairs: each lane holds a first and a second number.
inline __m512i rounded_pairs(Vector<float> first, Vector<float> second) {
  const __m512i interleaved = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                               23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(interleaved, rounded_halves(first, second));
}

// to[r / 2][d] = {from[r][d], from[r + 1][d]}. The number of rows is even; width is a multiple of
// 32.
inline void pair_rows(const Bf16* from, std::int64_t rows, std::int64_t width, Pair* to,
                      std::int64_t to_distance) {
  for (std::int64_t r = 0; r < rows; r += 2)
    for (std::int64_t d = 0; d < width; d += kDepth) {
      const __m512i first = _mm512_loadu_si512(from + r * width + d),
                    second = _mm512_loadu_si512(from + (r + 1) * width + d);
      const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                           7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
      const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
      _mm512_storeu_si512(to + r / 2 * to_distance + d, _mm512_permutex2var_epi16(first, low, second));
      _mm512_storeu_si512(to + r / 2 * to_distance + d + kSide,
                          _mm512_permutex2var_epi16(first, high, second));
    }
}

}  // namespace
}  // namespace rondo::attention_tiles

// Eight consecutive elements as a vector of the type of sums, for loops that a compiler does not
// vectorize by itself. ops/kernel/vectors.cuh is the CUDA counterpart. REQUIRES: inlined, as in
// loops of ops/kernel/parallel_rows.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/kernel/element.h"

namespace rondo {

constexpr std::int64_t kVector = 8;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVector * sizeof(T))));
};
template <class T>
using Vector = typename VectorOf<T>::type;

// Vectors are passed by reference: the calling convention of values depends on the instruction set.
template <class T>
void load(const T* from, Vector<SumOf<T>>& to) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    Vector<std::uint16_t> bits;
    std::memcpy(&bits, from, sizeof(bits));
    const Vector<std::uint32_t> wide = __builtin_convertvector(bits, Vector<std::uint32_t>) << 16;
    std::memcpy(&to, &wide, sizeof(to));
  } else {
    std::memcpy(&to, from, sizeof(to));
  }
}
// Rounds to nearest, ties to even.
template <class T>
void store(const Vector<SumOf<T>>& from, T* to) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    Vector<std::uint32_t> wide;
    std::memcpy(&wide, &from, sizeof(wide));
    wide = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
    wide = from == from ? wide : wide * 0 + 0x7fc0;
    const Vector<std::uint16_t> bits = __builtin_convertvector(wide, Vector<std::uint16_t>);
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    std::memcpy(to, &from, sizeof(from));
  }
}

// Load eight pairs of consecutive elements as first and second elements, and store them.
template <class T>
void load_pairs(const T* from, Vector<SumOf<T>>& first, Vector<SumOf<T>>& second) {
  Vector<SumOf<T>> low, high;
  load(from, low);
  load(from + kVector, high);
  first = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
  second = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
}
template <class T>
void store_pairs(const Vector<SumOf<T>>& first, const Vector<SumOf<T>>& second, T* to) {
  const Vector<SumOf<T>> low = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
  const Vector<SumOf<T>> high = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
  store(low, to);
  store(high, to + kVector);
}

}  // namespace rondo

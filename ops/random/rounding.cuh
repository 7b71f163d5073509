// The rounding of elements in a kernel: the bits of ops/random/rounding.h. `kind` is that of
// RoundingDraws::words.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/kernel/vectors.cuh"
#include "ops/random/stochastic_rounding.h"

namespace rondo::cuda {

// Rounds elements to nearest.
struct ToNearest {
  template <class Tensor>
  __device__ ToNearest(const Tensor&, float) {}
  __device__ bool is_aligned() const { return true; }
  __device__ std::int64_t index(std::int64_t) const { return 0; }
  // Stores elements [first, first + 8); `index` is that of the first.
  template <class T>
  __device__ void store_eight(std::uint32_t, T* run, std::int64_t first, std::int64_t,
                              const float (&from)[kVector]) const {
    store_some<true>(run, first, first + kVector, from);
  }
  template <class T>
  __device__ void store(std::uint32_t, T* run, std::int64_t i, std::int64_t, float x) const {
    run[i] = rounded<T>(x);
  }
};

// Returns whether a or b is a nan, by one instruction.
__device__ inline bool are_unordered(float a, float b) { return !(a <= b) && !(a >= b); }

// Rounds bf16 elements stochastically, by the `draws` of their tensor.
struct Stochastic {
  const RoundingDraws draws;
  const std::uint32_t step;

  template <class Tensor>
  __device__ Stochastic(const Tensor& tensor, float step)
      : draws(tensor.draws), step(static_cast<std::uint32_t>(step)) {}
  __device__ bool is_aligned() const { return draws.is_aligned(); }
  __device__ std::int64_t index(std::int64_t i) const { return draws.index(i); }
  template <class T>
  __device__ void store_eight(std::uint32_t kind, T* run, std::int64_t first, std::int64_t index,
                              const float (&from)[kVector]) const {
    if constexpr (std::is_same_v<T, float>) {
      store_some<true>(run, first, first + kVector, from);
    } else {
      static_assert(kVector == kDrawGroup);
      const PhiloxWords words = draws.words(index / kDrawGroup, step, kind);
      std::uint32_t bits[kVector];
      bool has_nan = false;
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        bits[k] = with_draw(from[k], draw_of(words, k));
        if (k % 2 == 0) has_nan |= are_unordered(from[k], from[k + 1]);
      }
      if (has_nan) {
#pragma unroll
        for (int k = 0; k < kVector; ++k)
          if (from[k] != from[k]) bits[k] = kNan;
      }
      const auto pair = [&](int k) { return static_cast<int>(bits[k] >> 16 | (bits[k + 1] & 0xffff0000u)); };
      store_16_bytes(run + first, {pair(0), pair(2), pair(4), pair(6)});
    }
  }
  template <class T>
  __device__ void store(std::uint32_t kind, T* run, std::int64_t i, std::int64_t index, float x) const {
    if constexpr (std::is_same_v<T, float>) {
      run[i] = x;
    } else {
      const PhiloxWords words = draws.words(index / kDrawGroup, step, kind);
      reinterpret_cast<std::uint16_t*>(run)[i] =
          stochastic_bf16(x, draw_of(words, static_cast<int>(index % kDrawGroup)));
    }
  }
};

}  // namespace rondo::cuda

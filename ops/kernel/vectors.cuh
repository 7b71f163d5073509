// Loads and stores of eight consecutive elements as floats, and sums over a block.
#pragma once

#include <type_traits>

#include "ops/kernel/element.cuh"

namespace rondo::cuda {

constexpr int kVector = 8;  // elements per thread at a time

// A kernel has kAligned as a template argument: all of its pieces are full and begin at multiples
// of 16 bytes. Then its loads are adjacent. With branches in between, each load would wait for the
// previous one, which leaves a third of the memory bandwidth unused.
//
// Calls f(std::bool_constant<aligned>()).
template <class F>
void with_alignment(bool aligned, const F& f) {
  aligned ? f(std::true_type()) : f(std::false_type());
}

// Loads elements [first, first + 8) of a run of `count`; zeros after its end.
template <bool kAligned, class T>
__device__ void load_some(const T* run, std::int64_t first, std::int64_t count, float (&to)[kVector]) {
  if constexpr (kAligned) {
    Pack<T, kVector> pack{};
    if (first < count) pack = *reinterpret_cast<const Pack<T, kVector>*>(run + first);
#pragma unroll
    for (int i = 0; i < kVector; ++i) to[i] = widened(pack.at[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) to[i] = first + i < count ? widened(run[first + i]) : 0.0f;
  }
}
template <bool kAligned, class T>
__device__ void store_some(T* run, std::int64_t first, std::int64_t count, const float (&from)[kVector]) {
  if constexpr (kAligned) {
    if (first >= count) return;
    Pack<T, kVector> pack;
#pragma unroll
    for (int i = 0; i < kVector; ++i) pack.at[i] = rounded<T>(from[i]);
    store_wide(run + first, pack);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      if (first + i < count) run[first + i] = rounded<T>(from[i]);
  }
}

constexpr int kPiece = 2 * kVector;

// Copies elements [first, first + kPiece) of a run of `count`.
template <bool kAligned, class T>
__device__ void copy_piece(const T* from, std::int64_t first, std::int64_t count, T* to) {
  if constexpr (kAligned) {
    Pack<T, kVector> low{}, high{};
    if (first < count) low = *reinterpret_cast<const Pack<T, kVector>*>(from + first);
    if (first + kVector < count) high = *reinterpret_cast<const Pack<T, kVector>*>(from + first + kVector);
    if (first < count) store_wide(to + first, low);
    if (first + kVector < count) store_wide(to + first + kVector, high);
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
      if (first + i < count) to[first + i] = from[first + i];
  }
}

// Returns the sum over the block to every thread, always in the same order. REQUIRES: full warps,
// at most 32; `warps` is shared memory for 32 numbers.
template <class Sum>
__device__ Sum block_sum(Sum value, Sum* warps) {
  const unsigned lane = threadIdx.x % kWarp;
  value = warp_sum(value);
  if (lane == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = warp_sum(lane < blockDim.x / kWarp ? warps[lane] : Sum(0));
  __syncthreads();  // the next call may write `warps`
  return value;
}

}  // namespace rondo::cuda

// Loads and stores of eight neighbours as floats, and sums over a block.
#pragma once

#include <type_traits>

#include "ops/kernel/element.cuh"

namespace rondo::cuda {

constexpr int kVector = 8;  // elements a thread takes at once

// A kernel has kAligned as a template argument: all of its pieces are whole and lie at multiples of 16 bytes.
// Then its loads stand side by side. A branch between them would make each wait for the one before, which
// leaves a third of the memory's rate unused.
//
// Calls f(std::bool_constant<aligned>()).
template <class F>
void with_alignment(bool aligned, const F& f) {
  aligned ? f(std::true_type()) : f(std::false_type());
}

// Elements [first, first + 8) of a run of `count`; zeros behind its end.
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

// The sum over the block, in the same order always and the same for every thread. REQUIRES: whole warps, at
// most 32; `warps` holds 32 numbers of shared memory.
template <class Sum>
__device__ Sum block_sum(Sum value, Sum* warps) {
  const unsigned lane = threadIdx.x % kWarp;
  value = warp_sum(value);
  if (lane == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = warp_sum(lane < blockDim.x / kWarp ? warps[lane] : Sum(0));
  __syncthreads();  // who comes next may write `warps`
  return value;
}

}  // namespace rondo::cuda

// Loads and stores of eight neighbours as floats, in pieces of 16 bytes where the address allows, and sums
// over a block.
#pragma once

#include "ops/kernel/element.cuh"

namespace rondo::cuda {

constexpr int kVector = 8;  // elements a thread takes at once

// Elements [first, first + 8) of a run of `count`; zeros behind its end. At once only if the address is
// `aligned`.
template <class T>
__device__ void load_some(const T* run, std::int64_t first, std::int64_t count, bool aligned,
                          float (&to)[kVector]) {
  if (aligned && first + kVector <= count) {
    const auto pack = *reinterpret_cast<const Pack<T, kVector>*>(run + first);
#pragma unroll
    for (int i = 0; i < kVector; ++i) to[i] = widened(pack.at[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) to[i] = first + i < count ? widened(run[first + i]) : 0.0f;
}
template <class T>
__device__ void store_some(T* run, std::int64_t first, std::int64_t count, bool aligned,
                           const float (&from)[kVector]) {
  if (aligned && first + kVector <= count) {
    Pack<T, kVector> pack;
#pragma unroll
    for (int i = 0; i < kVector; ++i) pack.at[i] = rounded<T>(from[i]);
    *reinterpret_cast<Pack<T, kVector>*>(run + first) = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (first + i < count) run[first + i] = rounded<T>(from[i]);
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

// Loads and stores of eight neighbours as floats, in pieces of 16 bytes where the address allows, and sums over a
// block. For the CUDA kernels of this folder.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace rondo::cuda {

constexpr int kVector = 8;  // elements a thread takes at once

inline bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void assign(float& to, float x) { to = x; }
__device__ inline void assign(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

// REQUIRES: an address that is a multiple of 16.
__device__ inline void load(const float* from, float (&to)[kVector]) {
  const float4 low = reinterpret_cast<const float4*>(from)[0],
               high = reinterpret_cast<const float4*>(from)[1];
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}
__device__ inline void load(const __nv_bfloat16* from, float (&to)[kVector]) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a bfloat16 is the upper half of a float
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// REQUIRES: an address that is a multiple of 16.
__device__ inline void store(float* to, const float (&from)[kVector]) {
  reinterpret_cast<float4*>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
}
__device__ inline void store(__nv_bfloat16* to, const float (&from)[kVector]) {
  __nv_bfloat162 pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}

// Elements [first, first + 8) of a run of `count`; zeros behind its end. Vectors only if `aligned`.
template <class T>
__device__ void load_some(const T* run, std::int64_t first, std::int64_t count, bool aligned,
                          float (&to)[kVector]) {
  if (aligned && first + kVector <= count) return load(run + first, to);
#pragma unroll
  for (int i = 0; i < kVector; ++i) to[i] = first + i < count ? to_float(run[first + i]) : 0.0f;
}
template <class T>
__device__ void store_some(T* run, std::int64_t first, std::int64_t count, bool aligned,
                           const float (&from)[kVector]) {
  if (aligned && first + kVector <= count) return store(run + first, from);
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (first + i < count) assign(run[first + i], from[i]);
}

// The sum over the block, in the same order always and the same for every thread. REQUIRES: whole warps, at most 32;
// `warps` holds 32 floats of shared memory.
__device__ inline float block_sum(float value, float* warps) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (lane == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? warps[lane] : 0.0f;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  __syncthreads();  // who comes next may write `warps`
  return value;
}

}  // namespace rondo::cuda

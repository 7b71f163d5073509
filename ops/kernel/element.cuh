// Elements in kernels: widened, rounded, moved in packs, summed over a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "ops/kernel/element.h"

namespace rondo::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <class T>
__device__ SumOf<T> widened(T x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat162float(x);
  else
    return x;
}
// Rounds to nearest, ties to even.
template <class T>
__device__ T rounded(SumOf<T> x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else
    return x;
}

// kCount contiguous elements; 16 bytes of them are one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount > 16 ? 16 : sizeof(T) * kCount) Pack {
  T at[kCount];
};
// Number of elements in 16 bytes.
template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));

// Stores 16 bytes in one access. REQUIRES: an aligned address that the thread does not read again.
__device__ inline void store_16_bytes(void* to, int4 words) {
#ifdef __CUDACC__
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w));
#else
  memcpy(to, &words, sizeof words);
#endif
}
// Stores a pack in accesses of 16 bytes. REQUIRES: as store_16_bytes. An assignment of the pack
// does not suffice: the compiler splits it into its members and stores bf16 two or four bytes at a
// time.
template <class T, int kCount>
__device__ void store_wide(T* to, const Pack<T, kCount>& pack) {
  static_assert(sizeof pack % 16 == 0);
  int4 words[sizeof pack / 16];
  memcpy(words, pack.at, sizeof pack);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof pack / 16); ++i)
    store_16_bytes(reinterpret_cast<int4*>(to) + i, words[i]);
}

// Whether rows begin at multiples of 16 bytes. They are `row_bytes` apart, the first at `pointer`.
__host__ __device__ inline bool aligned(const void* pointer, std::int64_t row_bytes = 0) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && row_bytes % 16 == 0;
}

// Returns the sum over a warp's lanes to each lane.
template <class Sum>
__device__ Sum warp_sum(Sum x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// Calls body(T()) with the type of an element.
template <class Body>
void with_dtype(Element element, const Body& body) {
  switch (element) {
    case Element::f32:
      return body(float());
    case Element::bf16:
      return body(__nv_bfloat16());
    case Element::f64:
      return body(double());
  }
}
// Like with_dtype, for kernels without f64. REQUIRES: the type is not f64.
template <class Body>
void with_f32_or_bf16(Element element, const Body& body) {
  if (element == Element::bf16) return body(__nv_bfloat16());
  body(float());
}

}  // namespace rondo::cuda

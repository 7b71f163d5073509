// Runs of eight elements of a matrix's lines, their largest magnitude and their rounding to float8,
// for the kernels of quantization.
#pragma once

#include <cstring>

#include "ops/float8/float8_math.h"
#include "ops/kernel/vectors.cuh"

namespace rondo::cuda {

using float8::Format;

// Eight consecutive elements as words, since a read of elements would wait for unpacking.
template <class T>
struct alignas(16) Run {
  std::uint32_t words[kVector * sizeof(T) / 4];

  __device__ float operator[](int i) const {
    T x;
    std::memcpy(&x, reinterpret_cast<const char*>(words) + i * sizeof(T), sizeof(T));
    return widened(x);
  }
};

// A matrix as lines of contiguous elements: its rows, or its columns.
template <class T>
struct Lines {
  const T* x;
  std::int64_t lines, width, stride;
  bool aligned;  // every line begins at a multiple of 16 bytes

  // Returns elements [first, first + 8) of a line; zeros outside the matrix.
  __device__ Run<T> run(std::int64_t line, std::int64_t first) const {
    const T* const from = x + line * stride + first;
    if (aligned && line < lines && first + kVector <= width) return *reinterpret_cast<const Run<T>*>(from);
    T some[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      some[i] = line < lines && first + i < width ? from[i] : rounded<T>(0.0f);
    Run<T> run;
    std::memcpy(run.words, some, sizeof some);
    return run;
  }
};

// --- largest magnitudes; nans do not count ---

__device__ inline float larger(float largest, float x) { return fmaxf(largest, fabsf(x)); }
template <class T>
__device__ float larger(float largest, const Run<T>& run) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) largest = larger(largest, run[i]);
  return largest;
}

// Returns the block's largest magnitude to every thread. `warps`: 32 numbers of shared memory.
__device__ inline float block_largest(float largest, float* warps) {
  const auto warp_largest = [](float x) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
    return x;
  };
  const unsigned lane = threadIdx.x % kWarp;
  largest = warp_largest(largest);
  if (lane == 0) warps[threadIdx.x / kWarp] = largest;
  __syncthreads();
  return warp_largest(lane < blockDim.x / kWarp ? warps[lane] : 0.0f);
}

// --- float8 numbers, four per word ---

template <int kCount>
using Words = Pack<std::uint32_t, kCount / 4>;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// Rounds by an instruction that equals float8::rounded, except for the kind of NaN.
template <Format format>
__device__ std::uint32_t rounded_pair(float low, float high) {
  std::uint16_t pair;
  if constexpr (format == Format::e4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif

// Calls write(round), which writes words round(x). Calls it twice if the instruction saw a nan.
template <Format format, class Write>
__device__ void write_rounded(const Write& write) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  bool numbers = true;
  write([&]<int kCount>(const float(&x)[kCount]) {
    Words<kCount> words;
#pragma unroll
    for (int i = 0; i < kCount; ++i) numbers = numbers && x[i] == x[i];
#pragma unroll
    for (int i = 0; i < kCount; i += 4)
      words.at[i / 4] = rounded_pair<format>(x[i], x[i + 1]) | rounded_pair<format>(x[i + 2], x[i + 3]) << 16;
    return words;
  });
  if (numbers) return;
#endif
  write([]<int kCount>(const float(&x)[kCount]) {
    Words<kCount> words = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      words.at[i / 4] |= static_cast<std::uint32_t>(float8::rounded<format>(x[i])) << i % 4 * 8;
    return words;
  });
}

// Stores numbers [first, first + 4 kWords) of a row of `count`, as far as the row has them.
template <int kWords>
__device__ void store_words(std::uint8_t* row, std::int64_t first, std::int64_t count, bool aligned,
                            const Pack<std::uint32_t, kWords>& words) {
  if (aligned && first + 4 * kWords <= count) {
    *reinterpret_cast<Pack<std::uint32_t, kWords>*>(row + first) = words;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4 * kWords; ++i)
    if (first + i < count) row[first + i] = static_cast<std::uint8_t>(words.at[i / 4] >> i % 4 * 8);
}

}  // namespace rondo::cuda

// In place of CUDA's header, for a C++ compiler: what our kernels use of the language, on the host. A test
// puts this folder first and includes a kernel's .cu file.
//
// A block's threads are fibers of one thread that take turns at barriers and shuffles. Blocks run one after
// the other, and a kernel is done when its launch returns. What it cannot find: races, memory that is not the
// device's, speed.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(threads)
#define __shared__ static  // blocks take turns

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct int4 {
  int x, y, z, w;
};
using cudaStream_t = void*;

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}

// Calls `kernel` for each thread of each block. Threads of a block know each other by threadIdx.x alone.
void run_on_host(const std::function<void()>& kernel, dim3 grid, unsigned threads);

void __syncthreads();
// All lanes of the warp that have not returned must call it. Returns what the lane `from` gave.
std::uint64_t exchange_in_warp(std::uint64_t value, unsigned from);

template <class T>
T __shfl_sync(unsigned, T value, int from, int width = 32) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const unsigned lane = threadIdx.x % 32;
  bits = exchange_in_warp(bits, lane / width * width + from % width);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}

inline void __trap() { throw std::runtime_error("a kernel trapped"); }

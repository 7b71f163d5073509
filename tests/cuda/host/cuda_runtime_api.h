// Replaces CUDA's header for a C++ compiler: implements on the host what Rondo's kernels use of
// CUDA C++. A test puts this folder first in the include path and includes a kernel's .cu file.
//
// The threads of a block are fibers of one thread that switch at barriers and shuffles. Blocks run
// one after the other, and a kernel is complete when its launch returns. This cannot find accesses
// to host memory or slow kernels; races.cpp finds races (host_threads.h).
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <stdexcept>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

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

// Calls `kernel` for each thread of each block. Threads of a block differ only in threadIdx.x.
void run_on_host(const std::function<void()>& kernel, dim3 grid, unsigned threads);

void __syncthreads(std::source_location at = std::source_location::current());
// All lanes of the warp that have not returned must call it. Returns the value of lane `from`.
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

// REQUIRES: no lane of the warp has returned.
void __syncwarp(std::source_location at = std::source_location::current());
// Returns the lanes whose value equals that of this lane. REQUIRES: no lane of the warp has
// returned.
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  unsigned lanes = 0;
  for (int lane = 0; lane < 32; ++lane) lanes |= (__shfl_sync(mask, value, lane) == value ? 1u : 0u) << lane;
  return lanes;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

inline void __trap() { throw std::runtime_error("a kernel trapped"); }

#ifdef __SANITIZE_THREAD__
// A copy of constant size becomes an access that no hook sees. Kernels find this function first.
void report_copy(void* to, const void* from, std::size_t bytes);
namespace rondo::cuda {
template <class To, class From>
void memcpy(To* to, const From* from, std::size_t bytes) {
  report_copy(to, from, bytes);
  std::memcpy(to, from, bytes);
}
}  // namespace rondo::cuda
#endif

// The GPU of this rank. The build picks one of two implementations: cuda/gpu.cpp, or
// without_cuda.cpp, which throws. Not thread-safe.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace rondo {

// Selects GPU `local_rank` of the visible GPUs, or the only visible one, for this thread and
// creates its context. Must run before the first tensor on it. Throws Error(environment) where
// there is no GPU, where several but fewer than the ranks on this node are visible, and where the
// driver or the kernels of this program cannot use the GPU.
c10::Device take_gpu(int local_rank, int local_world_size);

struct GpuFacts {
  std::string name;               // "NVIDIA H200"
  std::int64_t memory_bytes = 0;  // total
  std::int64_t free_bytes = 0;    // at the call; other processes may use some of the total
  int major = 0, minor = 0;       // compute capability
  std::string uuid;               // 16 bytes
};
// REQUIRES: `device` is the current one (take_gpu).
GpuFacts gpu_facts(c10::Device device);

// Returns the visible GPUs and their free memory, in words, after it has used each of them:
// "8 x NVIDIA H200, at least 139.8 of 140.4 GiB free". "" in a program without CUDA. Throws
// Error(environment) where the driver shows none, or one of them does not work.
std::string gpus_in_words();

// Returns the peak of the bytes allocated through LibTorch's caching allocator since the
// last reset.
std::int64_t gpu_peak_bytes(c10::Device device);
void reset_gpu_peak(c10::Device device);

}  // namespace rondo

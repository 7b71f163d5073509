// The GPU of this rank. Two implementations, of which the build picks one: cuda/gpu.cpp, and
// without_cuda.cpp, where there is none to take. Not thread-safe.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace rondo {

// Makes GPU `local_rank` of those that this process sees, or the only one that it sees, the thread's, with
// its context; before the first tensor on it. Throws Error(environment): no GPU, several but fewer than ranks
// on this node, one that the driver or the kernels of this program cannot use.
c10::Device take_gpu(int local_rank, int local_world_size);

struct GpuFacts {
  std::string name;               // "NVIDIA H200"
  std::int64_t memory_bytes = 0;  // in all
  int major = 0, minor = 0;       // compute capability
  std::string uuid;               // the device's, 16 bytes
};
GpuFacts gpu_facts(c10::Device device);

// Most bytes that tensors took of LibTorch's allocator since the last reset.
std::int64_t gpu_peak_bytes(c10::Device device);
void reset_gpu_peak(c10::Device device);

}  // namespace rondo

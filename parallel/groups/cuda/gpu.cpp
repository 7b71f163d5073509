#include "parallel/groups/gpu.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "support/error.h"

namespace rondo {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr int kOldestCapability = 9;  // the target of the kernels; cmake/cuda.cmake

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitCode::environment, what); }

}  // namespace

c10::Device take_gpu(int local_rank, int local_world_size) {
  // The planned memory and the pools of recordings are built on LibTorch's own allocator.
  if (const std::string name = allocator::get()->name(); name != "native")
    refuse(fmt::format(
        "PYTORCH_ALLOC_CONF selects the allocator \"{}\" (backend), and only \"native\" can place "
        "tensors at planned addresses; remove backend from PYTORCH_ALLOC_CONF",
        name));
  int count = 0;
  if (const cudaError_t problem = cudaGetDeviceCount(&count); problem != cudaSuccess)
    refuse(fmt::format(
        "job.device = \"cuda\": the driver shows no GPU: {}; run `rondo doctor` to see what it finds",
        cudaGetErrorString(problem)));
  // Slurm's --gpus-per-task and --gpu-bind show each rank its own GPU as number 0. groups.cpp
  // checks at rendezvous that no two ranks have the same GPU.
  const bool own_alone = count == 1;
  if (local_world_size > count && !own_alone)
    refuse(
        fmt::format("{} ranks on this node but {} GPUs: each rank takes one by LOCAL_RANK; start fewer ranks "
                    "(--nproc-per-node), or check CUDA_VISIBLE_DEVICES",
                    local_world_size, count));
  const auto index = static_cast<c10::DeviceIndex>(own_alone ? 0 : local_rank);
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  if (properties.major < kOldestCapability)
    refuse(fmt::format(
        "GPU {} is an {} of compute capability {}.{}; the kernels of this program need {}.0 or newer", index,
        properties.name, properties.major, properties.minor, kOldestCapability));
  c10::cuda::set_device(index);
  C10_CUDA_CHECK(cudaFree(nullptr));  // creates the context, so that its failure is reported here
  return {c10::kCUDA, index};
}

GpuFacts gpu_facts(c10::Device device) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.name = properties.name,
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
          .free_bytes = static_cast<std::int64_t>(free),
          .major = properties.major,
          .minor = properties.minor,
          .uuid = std::string(properties.uuid.bytes, sizeof properties.uuid.bytes)};
}

std::int64_t gpu_peak_bytes(c10::Device device) {
  const auto aggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return allocator::getDeviceStats(device.index()).allocated_bytes[aggregate].peak;
}

void reset_gpu_peak(c10::Device device) { allocator::resetPeakStats(device.index()); }

}  // namespace rondo

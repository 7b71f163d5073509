#include "parallel/groups/gpu.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>

#include "support/error.h"

namespace rondo {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr int kOldestCapability = 9;  // the target of the kernels; cmake/cuda.cmake

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitCode::environment, what); }

// Returns what to do about an error of the driver.
std::string advice(cudaError_t problem) {
  switch (problem) {
    case cudaErrorInsufficientDriver:
      return "the program needs a driver for CUDA 13, of version 580 or later; `nvidia-smi` prints the "
             "version";
    case cudaErrorSystemNotReady:
      return "the NVLink switches are not set up: as root `systemctl restart nvidia-fabricmanager`, of the "
             "driver's version";
    case cudaErrorSystemDriverMismatch:
      return "the driver's kernel module and its libraries have different versions: restart the machine, or "
             "the container with the host's libraries";
    case cudaErrorNoDevice:
      return "compare CUDA_VISIBLE_DEVICES with `nvidia-smi -L`";
    default:
      return "`nvidia-smi -q` and `dmesg` show more";
  }
}

int visible_count() {
  int count = 0;
  if (const cudaError_t problem = cudaGetDeviceCount(&count); problem != cudaSuccess)
    refuse(fmt::format("the driver shows no GPU: {}; {}", cudaGetErrorString(problem), advice(problem)));
  return count;
}

}  // namespace

c10::Device take_gpu(int local_rank, int local_world_size) {
  try {
    c10::CachingAllocator::AcceleratorAllocatorConfig::instance();  // reads PYTORCH_ALLOC_CONF
  } catch (const c10::Error& error) {
    refuse(
        fmt::format("PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF): {}", error.what_without_backtrace()));
  }
  // The planned memory and the pools of recordings are built on LibTorch's own allocator.
  if (const std::string name = allocator::get()->name(); name != "native")
    refuse(fmt::format(
        "PYTORCH_ALLOC_CONF selects the allocator \"{}\" (backend), and only \"native\" can place "
        "tensors at planned addresses; remove backend from PYTORCH_ALLOC_CONF",
        name));
  const int count = visible_count();
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

std::string gpus_in_words() {
  constexpr double kGiB = 1 << 30;
  std::map<std::string, int> names;
  double least_free = 0, total_of_it = 0;
  const int count = visible_count();
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    std::size_t free = 0, total = 0;
    cudaError_t problem = cudaGetDeviceProperties(&properties, i);
    if (problem == cudaSuccess) problem = cudaSetDevice(i);
    if (problem == cudaSuccess) problem = cudaFree(nullptr);  // creates the context
    if (problem == cudaSuccess) problem = cudaMemGetInfo(&free, &total);
    if (problem != cudaSuccess)
      refuse(fmt::format("GPU {} of {} ({}) does not work: {}; {}", i, count, properties.name,
                         cudaGetErrorString(problem), advice(problem)));
    ++names[properties.name];
    if (i > 0 && static_cast<double>(free) / kGiB >= least_free) continue;
    least_free = static_cast<double>(free) / kGiB;
    total_of_it = static_cast<double>(total) / kGiB;
  }
  std::string words;
  for (const auto& [name, number] : names)
    words += fmt::format("{}{} x {}", words.empty() ? "" : ", ", number, name);
  return fmt::format("{}, at least {:.1f} of {:.1f} GiB free", words, least_free, total_of_it);
}

std::int64_t gpu_peak_bytes(c10::Device device) {
  const auto aggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return allocator::getDeviceStats(device.index()).allocated_bytes[aggregate].peak;
}

void reset_gpu_peak(c10::Device device) { allocator::resetPeakStats(device.index()); }

}  // namespace rondo

// Properties of an H200, as far as LibTorch queries them. Any other query ends the process, so that
// nothing is invented unnoticed.
#include "tests/stand_in_cuda/runtime/devices.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/stand_in_cuda/runtime/state.h"

namespace stand_in {
namespace {

constexpr int kMultiprocessors = 132, kThreadsOfMultiprocessor = 2048;

thread_local int chosen_device = 0;

int device_count() {
  const char* count = std::getenv("RONDO_STAND_IN_GPUS");
  return count == nullptr ? 8 : std::atoi(count);
}

// Returns the number on its node of the first GPU that this process sees: 0 or, with
// RONDO_STAND_IN_BOUND, the local rank, as if Slurm had bound each task to a GPU.
int first_visible() {
  const char* rank = std::getenv("RONDO_STAND_IN_BOUND") == nullptr ? nullptr : std::getenv("LOCAL_RANK");
  return rank == nullptr ? 0 : std::atoi(rank);
}

[[noreturn]] void unknown(const char* what, int number) {
  std::fprintf(stderr, "stand-in CUDA: %s %d is not known\n", what, number);
  std::_Exit(127);
}

int attribute(cudaDeviceAttr asked) {
  switch (asked) {
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return kThreadsOfMultiprocessor;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 232448;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 233472;
    case cudaDevAttrMaxRegistersPerBlock:
      return 65536;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    default:
      unknown("device attribute", asked);
  }
}

// Calls of device management and questions create no context (Runtime API, "Initialization"). Nor
// do those that destroy something, but for cudaFree.
bool creates_context(std::string_view call) {
  for (const std::string_view part : {"Malloc", "HostAlloc", "Create", "Launch", "Memcpy", "Memset", "Free",
                                      "Synchronize", "BeginCapture", "Instantiate", "MemGetInfo"})
    if (call.find(part) != call.npos) return true;
  return false;
}

}  // namespace

void note_device(const char* call) {
  static const char* const rank = std::getenv("LOCAL_RANK");
  static const int own = rank == nullptr || device_count() == 1 ? 0 : std::atoi(rank);
  if (rank != nullptr && chosen_device != own && creates_context(call))
    journal::line("elsewhere %s device=%d", call, chosen_device);
}

std::int64_t memory_of_device() { return 150'754'820'096; }
int current_device() { return chosen_device; }

}  // namespace stand_in

using namespace stand_in;

cudaError_t cudaGetDeviceCount(int* count) {
  return called(__func__, [&] {
    *count = device_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = chosen_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return called(__func__, [&] {
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    chosen_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return called(__func__, [&] {
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "NVIDIA H200");
    properties->uuid.bytes[0] = static_cast<char>(1 + first_visible() + device);
    properties->totalGlobalMem = static_cast<std::size_t>(memory_of_device());
    properties->major = attribute(cudaDevAttrComputeCapabilityMajor);
    properties->minor = attribute(cudaDevAttrComputeCapabilityMinor);
    properties->multiProcessorCount = kMultiprocessors;
    properties->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
    properties->maxThreadsPerMultiProcessor = kThreadsOfMultiprocessor;
    properties->sharedMemPerBlock = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlock));
    properties->sharedMemPerBlockOptin =
        static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    properties->sharedMemPerMultiprocessor =
        static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
    properties->regsPerBlock = properties->regsPerMultiprocessor = attribute(cudaDevAttrMaxRegistersPerBlock);
    properties->warpSize = 32;
    properties->l2CacheSize = 60 << 20;
    properties->maxBlocksPerMultiProcessor = 32;
    for (int i = 0; i < 3; ++i) {
      properties->maxThreadsDim[i] = i < 2 ? 1024 : 64;
      properties->maxGridSize[i] = i == 0 ? 2147483647 : 65535;
    }
    properties->textureAlignment = 512;
    properties->concurrentKernels = properties->unifiedAddressing = 1;
    properties->pciBusID = device + 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr asked, int) {
  *value = attribute(asked);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

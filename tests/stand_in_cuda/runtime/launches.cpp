// Kernels: their registration when a program starts, and launches. None is executed, except the one
// that counts the segments of a replayed step (ReplayDevice::count_up): a watch over the step reads
// that count.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <unordered_map>

#include "tests/stand_in_cuda/libraries/library.h"
#include "tests/stand_in_cuda/runtime/state.h"

namespace stand_in {
namespace {

// By the address of the host's function. Never destroyed.
struct Kernels {
  std::unordered_map<const void*, const char*> names;
  std::unordered_map<const void*, int> shared_memory;  // beyond 48 KiB, if requested
  std::map<const void*, std::pair<std::size_t, void*>> variables;
};
Kernels& kernels() {
  static auto* const all = new Kernels;
  return *all;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

bool fits(const dim3& grid, const dim3& block) {
  const std::uint64_t threads = std::uint64_t(block.x) * block.y * block.z;
  return threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 && grid.x <= 2147483647u &&
         grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
}

// `x.add_(number)` of one i64: (int elements, {i64 other, i64 alpha}, {char* to, char* from}).
std::function<void()> counting(const char* name, void** arguments) {
  if (std::strstr(name, "vectorized_elementwise_kernel") == nullptr ||
      std::strstr(name, "CUDAFunctorOnSelf_addIl") == nullptr || *static_cast<int*>(arguments[0]) != 1)
    return {};
  const auto* const summands = static_cast<std::int64_t*>(arguments[1]);
  char* const* const places = static_cast<char**>(arguments[2]);
  return [added = summands[0] * summands[1], to = places[0], from = places[1]] {
    std::int64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    value += added;
    std::memcpy(to, &value, sizeof value);
  };
}

// cuTensorMapEncodeTiled, of any arguments.
int describes_a_tensor() { return 0; }

// Deliberate bugs (RONDO_STAND_IN_BUG) that an op could have: additional actions at its launch in a
// capture.
cudaError_t beside(cudaStream_t stream) {
  if (journal::bug("synchronize")) return cudaStreamSynchronize(stream);
  if (journal::bug("query_event")) {
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    const cudaError_t error = cudaEventQuery(event);
    cudaEventDestroy(event);
    return error;
  }
  if (journal::bug("malloc")) {
    void* block = nullptr;
    return cudaMalloc(&block, 1 << 20);
  }
  if (journal::bug("relaxed_malloc")) {
    auto mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, 1 << 20);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return error;
  }
  if (journal::bug("fork")) {
    cudaEvent_t event = nullptr;
    cudaStream_t other = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(other, event, 0);
    return give("a kernel", other, CUgraphNode_st::Kind::kernel, "a kernel of a fork");
  }
  if (journal::bug("other_gpu")) {
    int own = 0;
    std::size_t free = 0, total = 0;
    cudaGetDevice(&own);
    cudaSetDevice(own + 1);
    cudaMemGetInfo(&free, &total);
    return cudaSetDevice(own);
  }
  if (journal::bug("host_read")) {
    static char to[8], from[8];
    return cudaMemcpyAsync(to, from, sizeof to, cudaMemcpyDeviceToHost, stream);
  }
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t given) {
  const cudaStream_t stream = resolved(given);
  if (stream != nullptr && stream->capture != nullptr) {
    if (const cudaError_t error = beside(stream); error != cudaSuccess) return error;
    if (journal::bug("no_kernel")) kernel = nullptr;
    if (journal::bug("wide_block")) block = {64, 64, 1};
  }
  const auto found = kernels().names.find(kernel);
  if (found == kernels().names.end())
    return misused("a launch", "the kernel was never registered", cudaErrorInvalidDeviceFunction);
  const char* const name = found->second;
  const auto asked = kernels().shared_memory.find(kernel);
  const std::size_t most =
      asked == kernels().shared_memory.end() ? 49152 : static_cast<std::size_t>(asked->second);
  if (!fits(grid, block) || shared > most) {
    journal::line(
        "misused a launch error=%d: %u x %u x %u blocks of %u x %u x %u threads, %zu bytes, of %.200s",
        cudaErrorInvalidConfiguration, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, name);
    return cudaErrorInvalidConfiguration;
  }
  return give("a launch", given, CUgraphNode_st::Kind::kernel, name, counting(name, arguments));
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

// --- what a program registers when it starts ---

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  const std::lock_guard lock(everything());
  kernels().names[host] = name;
}

void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int, int) {
  const std::lock_guard lock(everything());
  kernels().variables[host] = {bytes, nullptr};
}

// --- launches ---

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Configuration& last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return called("cudaLaunchKernel", [&] { return launch(kernel, grid, block, arguments, shared, stream); });
}

}  // extern "C"

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return called(__func__, [&] { return launch(kernel, grid, block, arguments, shared, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  return called("cudaLaunchKernel", [&] {
    return launch(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                  config->stream);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return called(__func__, [&] {
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
      if (value > 232448) return cudaErrorInvalidValue;
      kernels().shared_memory[kernel] = value;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads,
                                                                   size_t, unsigned) {
  *blocks = std::min(32, 2048 / std::max(1, threads));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0);
}

// --- variables of the device ---

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return called(__func__, [&] {
    const auto found = kernels().variables.find(symbol);
    if (found == kernels().variables.end()) return cudaErrorInvalidSymbol;
    auto& [bytes, place] = found->second;
    if (place == nullptr) place = std::calloc(1, bytes);
    *address = place;
    return cudaSuccess;
  });
}

// --- the driver ---

// Of the driver's functions only the one that describes a tensor to a kernel exists. The others are
// for memory that grows in place, green contexts and clusters, which no run of Rondo uses.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* found) {
  const bool there = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = there ? reinterpret_cast<void*>(&describes_a_tensor) : nullptr;
  if (found != nullptr) *found = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// --- the libraries beside the runtime ---

cudaError_t stand_in_launch(const char* name, cudaStream_t stream, const stand_in_touched* touched, int count,
                            const std::shared_ptr<void>& communicator) {
  return called("a library's kernel", [&] {
    const cudaStream_t to = resolved(stream);
    if (to != nullptr && to->capture != nullptr)
      if (const cudaError_t error = beside(to); error != cudaSuccess) return error;
    // NCCL's manual, NCCL_GRAPH_MIXING_SUPPORT: with 0 not even the order of streams allows it.
    const char* const mixing = std::getenv("NCCL_GRAPH_MIXING_SUPPORT");
    if (communicator && to != nullptr && to->capture == nullptr && mixing != nullptr &&
        std::strcmp(mixing, "0") == 0 && in_flight(communicator))
      journal::line("misused %s error=0: a recording with its communicator is in flight", name);
    if (const std::int64_t us = journal::slow_us(name); us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(us));
    return give(name, stream, CUgraphNode_st::Kind::kernel, name, {}, {touched, touched + count},
                communicator);
  });
}

int stand_in_fault(const char* call) {
  const std::lock_guard lock(everything());
  return journal::fault(call);
}

void stand_in_hang(bool hangs) { hang(hangs); }

void stand_in_line(const char* text) {
  const std::lock_guard lock(everything());
  journal::line("%s", text);
}

void stand_in_at_exit(const char* name, std::int64_t (*live)()) {
  const std::lock_guard lock(everything());
  journal::at_exit(name, live);
}

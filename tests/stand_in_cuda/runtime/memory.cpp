// Memory: address ranges of the host, for device and for pinned memory, initially zero and never
// reused. Pages are allocated only when something is written, so a range may be as large as a GPU's
// memory. Large copies and fills within a device are skipped to keep it so: no kernel reads them.
#include "tests/stand_in_cuda/runtime/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "tests/stand_in_cuda/runtime/devices.h"
#include "tests/stand_in_cuda/runtime/state.h"

namespace stand_in {
namespace {

constexpr std::size_t kLarge = 1 << 20;

std::int64_t captures_begun = 0, allocated = 0, most_in_use = 0;
std::uint64_t copied_to = 0;

struct Block {
  Range range;
  bool freed = false;
};
std::map<const char*, Block>& blocks() {
  static auto* const all = [] {
    journal::at_exit("device_bytes", [] { return bytes_in_use(-1); });
    journal::at_exit("most_device_bytes", [] { return most_in_use; });
    journal::at_exit("pinned_blocks", [] {
      return static_cast<std::int64_t>(std::count_if(blocks().begin(), blocks().end(), [](const auto& each) {
        return !each.second.freed && each.second.range.on_host;
      }));
    });
    return new std::map<const char*, Block>;
  }();
  return *all;
}

cudaError_t allocate(void** address, std::size_t bytes, bool on_host) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  if (!on_host && bytes_in_use(device) + static_cast<std::int64_t>(bytes) > memory_of_device())
    return cudaErrorMemoryAllocation;
  const std::size_t whole = (bytes + (2u << 20) - 1) & ~std::size_t((2u << 20) - 1);
  void* const mapped =
      mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return cudaErrorMemoryAllocation;
  auto* const begin = static_cast<char*>(mapped);
  blocks()[begin] = {{begin, on_host ? bytes : whole, on_host, device}, false};
  journal::line("alloc kind=%s bytes=%zu number=%lld captures_begun=%lld capturing=%d",
                on_host ? "pinned" : "device", bytes, (long long)++allocated, (long long)captures_begun,
                captures_under_way().empty() ? 0 : 1);
  most_in_use = std::max(most_in_use, bytes_in_use(-1));
  *address = begin;
  return cudaSuccess;
}

// Frees the pages but keeps the addresses reserved.
cudaError_t release(const char* call, void* address, bool on_host) {
  const auto found = blocks().find(static_cast<const char*>(address));
  if (found == blocks().end() || found->second.freed || found->second.range.on_host != on_host)
    return refuse(call, Rule::free_twice);
  found->second.freed = true;
  const Range& range = found->second.range;
  // A step's counter of segments is such a block.
  const long long number =
      on_host && range.bytes == sizeof number ? *reinterpret_cast<long long*>(range.begin) : 0;
  mmap(range.begin, range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  journal::line("free kind=%s bytes=%zu number=%lld", on_host ? "pinned" : "device", range.bytes, number);
  return cudaSuccess;
}

// Whether a copy may access a range: no part of it is freed.
bool may_touch(const void* address, std::size_t bytes) {
  auto found = blocks().upper_bound(static_cast<const char*>(address));
  if (found == blocks().begin()) return true;
  const Block& block = (--found)->second;
  const std::size_t at = static_cast<std::size_t>(static_cast<const char*>(address) - block.range.begin);
  if (at >= block.range.bytes) return true;  // memory of the host itself
  return !block.freed && at + bytes <= block.range.bytes;
}

bool is_device(const void* address) {
  const Range range = range_around(address);
  return range.bytes != 0 && !range.on_host;
}

// A copy from pinned memory of the host, outside of captures, that may still run.
struct CopyFromHost {
  cudaStream_t stream;
  std::int64_t work;  // of the stream, with this copy
  std::size_t bytes, content;
};
// Reports bytes that the host wrote while an earlier copy of them may not have been done.
void tell_overwritten(const char* call, const void* from, std::size_t bytes, cudaStream_t stream) {
  static auto* const copies = new std::map<const void*, CopyFromHost>;
  const std::size_t content = std::hash<std::string_view>()({static_cast<const char*>(from), bytes});
  const auto earlier = copies->find(from);
  if (earlier != copies->end() && earlier->second.bytes == bytes && earlier->second.content != content &&
      !host_knows(earlier->second.stream, earlier->second.work))
    journal::line("misused %s error=0: the host has not waited for the last copy of this memory", call);
  copies->insert_or_assign(from, CopyFromHost{stream, stream->given + 1, bytes, content});
}

cudaError_t copy(const char* call, void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!may_touch(to, bytes) || !may_touch(from, bytes))
    return misused(call, "a copy of memory that was freed, or across its end", cudaErrorInvalidValue);
  const cudaStream_t in = resolved(stream);
  const bool recorded = in != nullptr && in->capture != nullptr;
  if (!recorded && is_device(to) && !is_device(from))
    copied_to = copied_to * 1099511628211ull + reinterpret_cast<std::uintptr_t>(to);
  if (in != nullptr && !recorded && bytes < kLarge && is_device(to) && range_around(from).on_host)
    tell_overwritten(call, from, bytes, in);
  for (const void* side : {static_cast<const void*>(to), from}) {
    if (range_around(side).bytes != 0) continue;
    if (recorded)
      journal::line("misused %s error=0: a recorded copy of host memory that is not pinned", call);
    else
      note_wait();
  }
  return give(call, stream, CUgraphNode_st::Kind::copy, call,
              [=] {
                if (!may_touch(to, bytes) || !may_touch(from, bytes)) {
                  misused(call, "a launched graph copies memory that was freed", cudaErrorIllegalAddress);
                  return;
                }
                if (bytes < kLarge || !is_device(to) || !is_device(from)) std::memmove(to, from, bytes);
                const int answer = is_device(from) ? journal::answer(bytes) : -1;
                if (answer >= 0)
                  std::fill_n(static_cast<std::int32_t*>(to), bytes / sizeof(std::int32_t), answer);
              },
              {{from, bytes, false}, {to, bytes, true}});
}

cudaError_t fill(const char* call, void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (range_around(to).bytes == 0 || !may_touch(to, bytes))
    return misused(call, "a fill of memory that is not the device's", cudaErrorInvalidValue);
  return give(call, stream, CUgraphNode_st::Kind::fill, call,
              [=] {
                if (!may_touch(to, bytes))
                  misused(call, "a launched graph fills memory that was freed", cudaErrorIllegalAddress);
                else if (bytes < kLarge)
                  std::memset(to, value, bytes);
              },
              {{to, bytes, true}});
}

// For calls that are potentially unsafe in a capture.
std::optional<cudaError_t> prohibited(const char* call, Rule rule) {
  const Captures because = prohibiting();
  if (because.empty()) return std::nullopt;
  const bool of_others = std::none_of(because.begin(), because.end(), [](const auto& capture) {
    return capture->thread == std::this_thread::get_id();
  });
  return refuse(call, of_others ? Rule::malloc_beside_a_global_capture : rule, because);
}

}  // namespace

Range range_around(const void* address) {
  auto found = blocks().upper_bound(static_cast<const char*>(address));
  if (found == blocks().begin()) return {};
  const Block& block = (--found)->second;
  if (block.freed || static_cast<const char*>(address) >= block.range.begin + block.range.bytes) return {};
  return block.range;
}

std::int64_t bytes_in_use(int device) {
  std::int64_t bytes = 0;
  for (const auto& [address, block] : blocks())
    if (!block.freed && !block.range.on_host && (device < 0 || block.range.device == device))
      bytes += static_cast<std::int64_t>(block.range.bytes);
  return bytes;
}

std::uint64_t take_copied_to() { return std::exchange(copied_to, 0); }

void note_capture() {
  ++captures_begun;
  journal::note_capture();
}

}  // namespace stand_in

using namespace stand_in;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return called(__func__, [&] {
    if (const auto refused = prohibited("cudaMalloc", Rule::malloc_under_capture)) return *refused;
    return allocate(address, bytes, false);
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return called(__func__, [&] {
    if (const auto refused = prohibited("cudaHostAlloc", Rule::host_alloc_under_capture)) return *refused;
    return allocate(address, bytes, true);
  });
}

cudaError_t cudaFree(void* address) {
  return called(__func__, [&] {
    if (address == nullptr) return cudaSuccess;
    if (const auto refused = prohibited("cudaFree", Rule::free_under_capture)) return *refused;
    waited_for_all();
    return release("cudaFree", address, false);
  });
}

cudaError_t cudaFreeHost(void* address) {
  return called(__func__, [&] {
    if (address == nullptr) return cudaSuccess;
    if (const auto refused = prohibited("cudaFreeHost", Rule::free_host_under_capture)) return *refused;
    return release("cudaFreeHost", address, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return called(__func__, [&] { return copy("cudaMemcpyAsync", to, from, bytes, stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return called(__func__, [&] { return copy("cudaMemcpyPeerAsync", to, from, bytes, stream); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return called(__func__, [&] { return copy("cudaMemcpy", to, from, bytes, nullptr); });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return called(__func__, [&] { return fill("cudaMemsetAsync", to, value, bytes, stream); });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return called(__func__, [&] { return fill("cudaMemset", to, value, bytes, nullptr); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return called(__func__, [&] {
    *total = static_cast<std::size_t>(memory_of_device());
    *free = *total - static_cast<std::size_t>(bytes_in_use(current_device()));
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return called(__func__, [&] {
    *attributes = {};
    const Range range = range_around(address);
    attributes->type = range.bytes == 0 ? cudaMemoryTypeUnregistered
                       : range.on_host  ? cudaMemoryTypeHost
                                        : cudaMemoryTypeDevice;
    attributes->device = range.bytes == 0 ? -2 : range.device;
    if (range.bytes != 0) attributes->devicePointer = const_cast<void*>(address);
    if (range.on_host) attributes->hostPointer = const_cast<void*>(address);
    return cudaSuccess;
  });
}

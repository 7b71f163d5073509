// A heap block has its size in a header of one alignment unit, because LibTorch's deleter gets a
// pointer and no size. A pointer into an arena belongs to the arena: its release only decrements a
// counter, found by a lock-free scan of 64 address ranges. An arena with unreleased blocks is not
// freed, since a collective left behind by a failure may write into them. DataPtr's context equals
// its data pointer, as raw_allocate requires.
#include "compiler/execute/cpu_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "support/error.h"

namespace rondo::cpu_memory {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> peak{0};
std::atomic<std::int64_t> requests{0};
thread_local ResultPlacement* placement = nullptr;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

void count(std::int64_t bytes) {
  const std::int64_t bytes_live = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t before = peak.load(std::memory_order_relaxed);
  while (bytes_live > before && !peak.compare_exchange_weak(before, bytes_live, std::memory_order_relaxed)) {
  }
}

// Address ranges of live arenas. Blocks inside belong to their arena and are not freed one by one.
// Reads are lock-free; a process has a handful of arenas.
struct Range {
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<std::int64_t> blocks{0};  // handed out and not released
};
std::array<Range, 64> arenas;

Range* arena_of(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (Range& range : arenas) {
    const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
    if (begin != 0 && at >= begin && at < range.end.load(std::memory_order_acquire)) return &range;
  }
  return nullptr;
}

// Allocates a heap block with its size in a header, with aligned data.
void* heap_allocate(std::size_t bytes) {
  const std::size_t total = round_up(bytes + kAlignment, kAlignment);
  auto* base = static_cast<char*>(std::aligned_alloc(kAlignment, total));
  if (base == nullptr)
    throw Error(ExitCode::resources,
                "out of memory: cannot allocate " + std::to_string(bytes) + " bytes with " +
                    std::to_string(live.load()) +
                    " bytes of tensors live; lower training.local_batch_size or training.seq_len");
  *reinterpret_cast<std::size_t*>(base) = bytes;
  count(static_cast<std::int64_t>(bytes));
  return base + kAlignment;
}

void release(void* data) {
  if (data == nullptr) return;
  if (Range* range = arena_of(data)) {
    range->blocks.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  char* base = static_cast<char*>(data) - kAlignment;
  count(-static_cast<std::int64_t>(*reinterpret_cast<std::size_t*>(base)));
  std::free(base);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::kCPU};
    requests.fetch_add(1, std::memory_order_relaxed);
    void* data = placement != nullptr ? placement->take(bytes) : nullptr;
    if (data == nullptr) {
      data = heap_allocate(bytes);
    } else {
      arena_of(data)->blocks.fetch_add(1, std::memory_order_relaxed);
    }
    return {data, data, &release, c10::kCPU};  // context == data: oneDNN calls raw_allocate
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

bool is_in_arena(const void* address) { return arena_of(address) != nullptr; }
std::int64_t live_bytes() { return live.load(); }
std::int64_t peak_bytes() { return peak.load(); }
void reset_peak() { peak.store(live.load()); }
std::int64_t allocation_count() { return requests.load(); }

Arena::Arena(std::size_t bytes) : size_(round_up(std::max<std::size_t>(bytes, 1), kAlignment)) {
  data_ = static_cast<char*>(std::aligned_alloc(kHugePage, round_up(size_, kHugePage)));
  if (data_ == nullptr)
    throw Error(ExitCode::resources, "out of memory: the step's plan needs " + std::to_string(bytes) +
                                         " bytes; lower training.local_batch_size or training.seq_len");
  madvise(data_, size_, MADV_HUGEPAGE);  // optional; slower without huge pages
  for (Range& range : arenas) {
    std::uintptr_t free_slot = 0;
    const auto begin = reinterpret_cast<std::uintptr_t>(data_);
    if (range.begin.load() != 0) continue;
    range.end.store(begin + size_);
    range.blocks.store(0);
    if (!range.begin.compare_exchange_strong(free_slot, begin)) continue;
    count(static_cast<std::int64_t>(size_));
    return;
  }
  std::free(data_);
  throw Error(ExitCode::internal, "more than 64 arenas are live");
}

Arena::~Arena() {
  Range* range = arena_of(data_);
  // A collective left behind by a failure may still write into its block, and releases it later.
  if (range->blocks.load() != 0) return;
  range->begin.store(0);
  count(-static_cast<std::int64_t>(size_));
  std::free(data_);
}

std::int64_t Arena::blocks() const { return arena_of(data_)->blocks.load(std::memory_order_relaxed); }

ResultPlacement::ResultPlacement(std::span<const PlacedResult> results, std::span<const std::span<char>> room)
    : results_(results), room_(room.begin(), room.end()) {
  RONDO_ASSERT(placement == nullptr, "placements do not nest");
  placement = this;
}

ResultPlacement::~ResultPlacement() { placement = nullptr; }

void* ResultPlacement::take(std::size_t bytes) {
  if (void* planned = results_.take(bytes)) return planned;
  const std::size_t rounded = round_up(bytes, kAlignment);
  for (std::span<char>& part : room_) {
    if (part.size() < rounded) continue;
    void* address = part.data();
    part = part.subspan(rounded);
    return address;
  }
  heap_bytes_ += bytes;
  return nullptr;
}

}  // namespace rondo::cpu_memory

// The CPU allocator of the worker: counts tensor bytes, and lets a replay say where an op's results go.
//
// Installed once, before the first tensor (`install`). Blocks are 64-byte aligned. Counters and allocation
// are thread-safe; a placement belongs to the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/execute/placed_results.h"

namespace rondo::cpu_memory {

void install();

bool is_in_arena(const void* address);

// Bytes in live blocks now, and the most there were since the last `reset_peak`. Arenas count as a whole.
std::int64_t live_bytes();
std::int64_t peak_bytes();
void reset_peak();
// Requests served since start.
std::int64_t allocation_count();

// One block that a replay divides up. Freed on destruction, unless somebody still holds memory in it.
class Arena {
 public:
  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Blocks in here that an op or a collective was given and has not released.
  std::int64_t blocks() const;

 private:
  char* data_;
  std::size_t size_;
};

// While alive, requests of this thread are placed. At most one a thread.
class ResultPlacement {
 public:
  // `room`: free parts of an arena, aligned to 64 bytes; what does not fit comes from the heap.
  ResultPlacement(std::span<const PlacedResult> results, std::span<const std::span<char>> room);
  ~ResultPlacement();
  ResultPlacement(const ResultPlacement&) = delete;
  ResultPlacement& operator=(const ResultPlacement&) = delete;

  // nullptr: take it from the heap.
  void* take(std::size_t bytes);
  // Bytes of temporaries that came from the heap so far.
  std::size_t heap_bytes() const { return heap_bytes_; }

 private:
  UnplacedResults results_;
  std::vector<std::span<char>> room_;  // what is left of it
  std::size_t heap_bytes_ = 0;
};

}  // namespace rondo::cpu_memory

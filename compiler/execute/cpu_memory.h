// The CPU allocator of the worker. It counts tensor bytes, and places the results of an op for
// a replay.
//
// `install` runs once, before the first tensor. Blocks are 64-byte aligned. Counters and allocation
// are thread-safe; a placement belongs to its thread.
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

// Bytes in live blocks, and their peak since the last `reset_peak`. Arenas count as a whole.
std::int64_t live_bytes();
std::int64_t peak_bytes();
void reset_peak();
// Returns the number of requests since the start.
std::int64_t allocation_count();

// One block that a replay divides up. Destruction frees it unless blocks in it are unreleased.
class Arena {
 public:
  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Returns the number of blocks in it that an op or a collective has not released.
  std::int64_t blocks() const;

 private:
  char* data_;
  std::size_t size_;
};

// Places the requests of this thread during its lifetime. At most one a thread.
class ResultPlacement {
 public:
  // `room` lists free parts of an arena, aligned to 64 bytes; other temporaries use the heap.
  ResultPlacement(std::span<const PlacedResult> results, std::span<const std::span<char>> room);
  ~ResultPlacement();
  ResultPlacement(const ResultPlacement&) = delete;
  ResultPlacement& operator=(const ResultPlacement&) = delete;

  // Returns nullptr for a request that the heap must serve.
  void* take(std::size_t bytes);
  // Returns the bytes of temporaries served by the heap so far.
  std::size_t heap_bytes() const { return heap_bytes_; }

 private:
  UnplacedResults results_;
  std::vector<std::span<char>> room_;  // the unused rest
  std::size_t heap_bytes_ = 0;
};

}  // namespace rondo::cpu_memory

// The CPU allocator of the worker: counts tensor bytes, and lets a replay say where an op's results go.
//
// Installed once, before the first tensor (`install`). Blocks are 64-byte aligned. Counters and allocation
// are thread-safe; a placement belongs to the thread that made it.
//
// Note [Placing results]: a replay has planned an address for every result. While a placement is active, a
// request for exactly the bytes of a result that is still unplaced gets that result's address; anything else
// the op asks for is a temporary and comes from a region that is free while the op runs. What the op's own
// worker threads request comes from the heap. A kernel may hand out its result differently (a temporary of
// equal size first); the replay compares addresses after the call and copies, so a wrong guess costs time and
// never correctness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

struct PlacedResult {
  void* address;
  std::size_t bytes;
  friend bool operator==(const PlacedResult&, const PlacedResult&) = default;
};

// The results of an op for which no request has come yet. Kernels ask in about the order of their results, so
// only the 64 oldest that are unplaced are looked at.
class UnplacedResults {
 public:
  explicit UnplacedResults(std::span<const PlacedResult> results) : results_(results) {}
  // The address of the first one of exactly these bytes, which is then placed; nullptr: there is none.
  void* take(std::size_t bytes);

 private:
  std::span<const PlacedResult> results_;
  std::size_t first_ = 0;    // all before it have their memory
  std::uint64_t taken_ = 0;  // bit i: result first_ + i has its memory
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

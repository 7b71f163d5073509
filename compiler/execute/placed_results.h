// Planned addresses of an op's results, which an allocator hands out.
//
// Note [Placing results]: a replay has planned an address for every result. While a placement is
// active, a request for exactly the bytes of an unplaced result gets that result's address. Every
// other request of the op is a temporary, in a region that is free while the op runs. Requests from
// the op's own worker threads are served from the heap. A kernel may request a temporary of equal
// size before its result. The replay therefore compares addresses after the call and copies
// misplaced results, so a wrong guess costs time, but never correctness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo {

struct PlacedResult {
  void* address;
  std::size_t bytes;
  friend bool operator==(const PlacedResult&, const PlacedResult&) = default;
};

// The results of an op that have no memory yet. Kernels request results in about their order, so
// only the 64 oldest ones are searched.
class UnplacedResults {
 public:
  explicit UnplacedResults(std::span<const PlacedResult> results) : results_(results) {}
  // Places the first result of exactly these bytes and returns its address, or nullptr.
  void* take(std::size_t bytes);

 private:
  std::span<const PlacedResult> results_;
  std::size_t first_ = 0;    // earlier results have their memory
  std::uint64_t taken_ = 0;  // bit i: result first_ + i has its memory
};

}  // namespace rondo

// Addresses for the results of an op, as an allocator hands them out.
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
#include <span>

namespace rondo {

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

}  // namespace rondo

// The orders of the data law (datasets/loader.h), from integer arithmetic alone: the same bits with every
// compiler and on every machine, which std::shuffle and std::hash do not promise.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rondo {

// A bijection of 64-bit words that spreads every input bit over the output (the finalizer of SplitMix64:
// Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t mix64(std::uint64_t x);

// FNV-1a, then mix64. Part of the format of splits and fingerprints: never change it.
std::uint64_t stable_hash(std::string_view text);

// The documents 0..count-1 of an epoch in drawn order: Fisher-Yates over SplitMix64.
std::vector<std::uint32_t> document_order(std::uint32_t count, std::uint64_t seed, std::int64_t epoch);

// A permutation of 0..count-1 that needs no memory: a balanced Feistel network over the next power of 4,
// walked along its cycle until the result is below count (Black, Rogaway, "Ciphers with arbitrary finite
// domains", 2002).
class SamplePermutation {
 public:
  SamplePermutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch);
  std::int64_t operator()(std::int64_t place) const;  // place in [0, count)

 private:
  static constexpr int kRounds = 6;
  std::uint64_t count_;
  int half_bits_;
  std::uint64_t keys_[kRounds];
};

}  // namespace rondo

// Computes the orders of Note [the data law] in datasets/loader.h with integer arithmetic alone.
// The bits are the same with every compiler and on every machine, which std::shuffle and std::hash
// do not guarantee.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rondo {

// Maps 64-bit words one to one, so that every input bit affects all output bits (the finalizer of
// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t mix64(std::uint64_t x);

// Returns mix64 of the FNV-1a hash. Part of the format of splits and fingerprints: never change it.
std::uint64_t stable_hash(std::string_view text);

// Returns the documents 0..count-1 in the order drawn for an epoch: Fisher-Yates over SplitMix64.
std::vector<std::uint32_t> document_order(std::uint32_t count, std::uint64_t seed, std::int64_t epoch);

// A permutation of 0..count-1 in constant memory: a balanced Feistel network over the next power of
// 4. Its result is permuted again until it is below count (cycle walking: Black, Rogaway, "Ciphers
// with arbitrary finite domains", 2002).
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

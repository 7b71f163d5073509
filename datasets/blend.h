// Chooses the source of each sample when several sources are mixed by weight.
//
// Each block of kBlock samples takes n_k samples from source k. n_k is the block's share weight_k /
// sum of weights, rounded by largest remainders so that the n_k add up to kBlock. Each n_k is at
// least 1. Within a block, each place goes to the source that is furthest behind its share. All
// blocks are equal, so any rank finds the source and number of any sample in constant time.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

class Blend {
 public:
  static constexpr std::int64_t kBlock = 4096;

  // REQUIRES weights that check_weights accepts.
  explicit Blend(const std::vector<double>& weights);

  struct Place {
    std::int64_t source;
    std::int64_t number;  // index of the sample within its source, from 0, unbounded
  };
  Place place_of(std::int64_t sample) const;  // sample >= 0
  std::int64_t samples_in_block(std::size_t source) const { return counts_[source]; }

 private:
  struct Slot {
    std::uint16_t source;
    std::uint16_t number;  // within the block
  };
  std::vector<std::int64_t> counts_;
  std::vector<Slot> slots_;  // kBlock of them
};

// Throws Error(config) unless `weights` has one weight per source, each above 0 and finite. Also
// throws when there are more than Blend::kBlock sources.
void check_weights(const std::vector<double>& weights, std::size_t sources);

}  // namespace rondo

// Which source each sample comes from, when several are mixed by weight.
//
// In every block of kBlock samples, source k has the same number n_k: weight_k / sum of weights of the block,
// rounded so that the n_k add up (largest remainders first) and are at least 1. Within the block the sources
// alternate as evenly as they can: each place goes to the source that is furthest behind its share. Every
// block is alike, so that the source of a sample and its number within that source are found at once, by any
// rank, at any step.
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
    std::int64_t number;  // of the sample among those of the source, from 0 without end
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

// Throws Error(config) unless there is one weight above 0 and below infinity for each of `sources` entries,
// and there are at most Blend::kBlock of them.
void check_weights(const std::vector<double>& weights, std::size_t sources);

}  // namespace rondo

// Chooses the source of each sample when several sources are mixed by weight.
//
// Each block of samples takes n_k samples from source k. n_k is the block's share weight_k / sum of
// weights, rounded by largest remainders so that the n_k add up to the block. The block is the
// smallest of 4096, 8192, ..., 2^20 samples in which each n_k differs from its share by at most 1
// %. Within a block, each place goes to the source that is furthest behind its share. All blocks
// are equal, so any rank finds the source and number of any sample in constant time.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

class Blend {
 public:
  static constexpr std::size_t kMaxSources = 4096;

  // REQUIRES weights that check_weights accepts.
  explicit Blend(const std::vector<double>& weights);

  struct Place {
    std::int64_t source;
    std::int64_t number;  // index of the sample within its source, from 0, unbounded
  };
  Place place_of(std::int64_t sample) const;  // sample >= 0
  std::int64_t block() const { return static_cast<std::int64_t>(slots_.size()); }
  std::int64_t samples_in_block(std::size_t source) const { return counts_[source]; }

 private:
  struct Slot {
    std::uint32_t source;
    std::uint32_t number;  // within the block
  };
  std::vector<std::int64_t> counts_;
  std::vector<Slot> slots_;  // one for each sample of a block
};

// Throws Error(config) unless `weights` has one weight per source, each above 0 and finite. Also
// throws for more than Blend::kMaxSources sources, and for a share that no block holds to 1 %.
void check_weights(const std::vector<double>& weights, std::size_t sources);

}  // namespace rondo

// Apportions samples to sources by largest remainders. Weights are first scaled by the largest one,
// so their sum cannot overflow. The order within a block is computed in integers, so every machine
// builds the same table. Small shares need a large block: 20 samples of 4096 are 2 % off 0.5 %. One
// table serves all blocks: the place of a sample is one lookup and one multiplication, so any rank
// can start at any step.
#include "datasets/blend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::int64_t kSmallestBlock = 4096, kLargestBlock = 1 << 20;
constexpr double kTolerance = 0.01;  // of a share

std::vector<double> shares_of(const std::vector<double>& weights) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;  // of weights scaled to at most 1, which cannot overflow
  for (const double weight : weights) sum += weight / largest;
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight / largest / sum);
  return shares;
}

// Rounds by largest remainders, with at least one sample for each source.
std::vector<std::int64_t> apportion(const std::vector<double>& shares, std::int64_t total) {
  std::vector<std::int64_t> counts;
  std::vector<double> remainders;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(total);
    counts.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(exact)));
    remainders.push_back(exact - static_cast<double>(counts.back()));
  }
  std::int64_t unassigned = total - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (; unassigned > 0; --unassigned) {
    const auto k = std::max_element(remainders.begin(), remainders.end()) - remainders.begin();
    ++counts[static_cast<std::size_t>(k)];
    remainders[static_cast<std::size_t>(k)] -= 1;
  }
  for (; unassigned < 0; ++unassigned) --*std::max_element(counts.begin(), counts.end());
  return counts;
}

// Returns the source whose count in a block is more than the tolerance off its share; none: the
// number of sources.
std::size_t source_off_share(const std::vector<double>& shares, const std::vector<std::int64_t>& counts,
                             std::int64_t block) {
  std::size_t k = 0;
  for (; k < shares.size(); ++k) {
    const double exact = shares[k] * static_cast<double>(block);
    if (std::abs(static_cast<double>(counts[k]) - exact) > kTolerance * exact) break;
  }
  return k;
}

// Returns the counts of the smallest block that holds all shares, or else of the largest block.
std::vector<std::int64_t> counts_of_block(const std::vector<double>& shares) {
  for (std::int64_t block = kSmallestBlock;; block *= 2) {
    std::vector<std::int64_t> counts = apportion(shares, block);
    if (block == kLargestBlock || source_off_share(shares, counts, block) == shares.size()) return counts;
  }
}

}  // namespace

Blend::Blend(const std::vector<double>& weights) : counts_(counts_of_block(shares_of(weights))) {
  const std::int64_t block = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  slots_.reserve(static_cast<std::size_t>(block));
  std::vector<std::int64_t> assigned(counts_.size());
  for (std::int64_t place = 0; place < block; ++place) {
    // The deficit of source k: its share of the first place + 1 samples minus the samples assigned
    // to it, in units of 1 / block.
    std::size_t behind = 0;
    std::int64_t most = -block * block;
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      const std::int64_t deficit = counts_[k] * (place + 1) - assigned[k] * block;
      if (deficit > most && assigned[k] < counts_[k]) most = deficit, behind = k;
    }
    slots_.push_back({static_cast<std::uint32_t>(behind), static_cast<std::uint32_t>(assigned[behind]++)});
  }
}

Blend::Place Blend::place_of(std::int64_t sample) const {
  const Slot slot = slots_[static_cast<std::size_t>(sample % block())];
  return {slot.source, sample / block() * counts_[slot.source] + slot.number};
}

void check_weights(const std::vector<double>& weights, std::size_t sources) {
  if (weights.size() != sources)
    throw Error(
        ExitCode::config,
        fmt::format("training.dataset_weights has {} weights, but training.dataset_path names {} sources: "
                    "give one weight for each, or none",
                    weights.size(), sources));
  if (sources > Blend::kMaxSources)
    throw Error(ExitCode::config,
                fmt::format("training.dataset_weights: at most {} sources can be mixed, not {}",
                            Blend::kMaxSources, sources));
  for (const double weight : weights)
    if (!std::isfinite(weight) || weight <= 0)
      throw Error(ExitCode::config,
                  fmt::format("training.dataset_weights: {} must be above 0 and finite", weight));
  if (weights.empty()) return;
  const std::vector<double> shares = shares_of(weights);
  const std::vector<std::int64_t> counts = counts_of_block(shares);
  const std::int64_t block = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (const std::size_t k = source_off_share(shares, counts, block); k < shares.size())
    throw Error(
        ExitCode::config,
        fmt::format("training.dataset_weights[{}] = {} asks for {:.2g} of the samples, which would become "
                    "{} of {} = {:.2g}; a share of at least {:.1g} is kept to 1 %: raise the weight, or "
                    "leave the source out",
                    k, weights[k], shares[k], counts[k], block,
                    static_cast<double>(counts[k]) / static_cast<double>(block),
                    0.5 / kTolerance / static_cast<double>(kLargestBlock)));
}

}  // namespace rondo

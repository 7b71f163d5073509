// Apportions samples to sources by largest remainders. Weights are first scaled by the largest one,
// so their sum cannot overflow. The order within a block is computed in integers, so every machine
// builds the same table. One table serves all blocks: the place of a sample is one lookup and one
// multiplication, so any rank can start at any step.
#include "datasets/blend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/error.h"

namespace rondo {
namespace {

// Rounds by largest remainders, with at least one sample for each source.
std::vector<std::int64_t> apportion(const std::vector<double>& weights, std::int64_t total) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;  // of weights scaled to at most 1, which cannot overflow
  for (const double weight : weights) sum += weight / largest;
  std::vector<std::int64_t> counts;
  std::vector<double> remainders;
  for (const double weight : weights) {
    const double exact = weight / largest / sum * static_cast<double>(total);
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

}  // namespace

Blend::Blend(const std::vector<double>& weights) : counts_(apportion(weights, kBlock)) {
  std::vector<std::int64_t> assigned(counts_.size());
  for (std::int64_t place = 0; place < kBlock; ++place) {
    // The deficit of source k: its share of the first place + 1 samples minus the samples assigned
    // to it, in units of 1 / kBlock.
    std::size_t behind = 0;
    std::int64_t most = -kBlock * kBlock;
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      const std::int64_t deficit = counts_[k] * (place + 1) - assigned[k] * kBlock;
      if (deficit > most && assigned[k] < counts_[k]) most = deficit, behind = k;
    }
    slots_.push_back({static_cast<std::uint16_t>(behind), static_cast<std::uint16_t>(assigned[behind]++)});
  }
}

Blend::Place Blend::place_of(std::int64_t sample) const {
  const Slot slot = slots_[static_cast<std::size_t>(sample % kBlock)];
  return {slot.source, sample / kBlock * counts_[slot.source] + slot.number};
}

void check_weights(const std::vector<double>& weights, std::size_t sources) {
  if (weights.size() != sources)
    throw Error(
        ExitCode::config,
        fmt::format("training.dataset_weights has {} weights, but training.dataset_path names {} sources: "
                    "give one weight for each, or none",
                    weights.size(), sources));
  if (sources > static_cast<std::size_t>(Blend::kBlock))
    throw Error(ExitCode::config,
                fmt::format("training.dataset_weights: at most {} sources can be mixed, not {}",
                            Blend::kBlock, sources));
  for (const double weight : weights)
    if (!std::isfinite(weight) || weight <= 0)
      throw Error(ExitCode::config,
                  fmt::format("training.dataset_weights: {} must be above 0 and finite", weight));
}

}  // namespace rondo

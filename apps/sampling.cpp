#include "apps/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "datasets/documents/order.h"
#include "support/error.h"

namespace rondo {
namespace {

// Returns a number in [0, 1).
double uniform(std::uint64_t seed, std::int64_t number) {
  const std::uint64_t bits = mix64(mix64(seed) + static_cast<std::uint64_t>(number));
  return std::ldexp(static_cast<double>(bits >> 11), -53);
}

}  // namespace

std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t number) {
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    throw Error(ExitCode::numerics,
                "the model's logits are not finite: its weights are damaged or its training diverged");
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature == 0) return likeliest - logits.begin();

  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (sampling.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(sampling.top_k)));
  std::vector<double> sums;  // cumulative probabilities times their common denominator
  double sum = 0;
  for (const std::int64_t token : order) {
    const double logit = logits[static_cast<std::size_t>(token)];
    sums.push_back(sum += std::exp((logit - static_cast<double>(*likeliest)) / sampling.temperature));
  }
  const auto last = std::lower_bound(sums.begin(), sums.end(), sampling.top_p * sum);
  const std::size_t count = std::min(static_cast<std::size_t>(last - sums.begin()) + 1, sums.size());
  const double drawn = uniform(sampling.seed, number) * sums[count - 1];
  const auto chosen =
      std::upper_bound(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(count), drawn);
  return order[std::min(static_cast<std::size_t>(chosen - sums.begin()), count - 1)];
}

}  // namespace rondo

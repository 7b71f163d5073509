#include "runs/curves.h"

#include <algorithm>
#include <cmath>

namespace rondo {

std::span<const Quantity> quantities() {
  using M = StepMetrics;
  using Value = std::optional<double>;
  static constexpr Quantity list[] = {
      {"loss", "Training loss", "nats", false, [](const M& m) -> Value { return m.loss; }},
      {"validation_loss", "Validation loss", "nats", false, [](const M& m) { return m.validation_loss; }},
      {"grad_norm", "Gradient norm", "", true, [](const M& m) -> Value { return m.grad_norm; }},
      {"lr", "Learning rate", "", false, [](const M& m) -> Value { return m.lr; }},
      {"tokens_per_s", "Throughput of a rank", "tokens/s", false,
       [](const M& m) -> Value { return m.tokens_per_s; }},
      {"step_time_s", "Step time", "s", false, [](const M& m) -> Value { return m.step_time_s; }},
      {"mfu", "Model FLOPs utilization", "%", false, [](const M& m) { return m.mfu; }},
      {"memory_gib", "Peak memory of rank 0", "GiB", false, [](const M& m) -> Value { return m.memory_gib; }},
      {"data_wait_s", "Waiting for data", "s", false, [](const M& m) -> Value { return m.data_wait_s; }},
      {"load_imbalance", "Tokens of the fullest expert over the mean", "", false,
       [](const M& m) { return m.load_imbalance; }},
      {"attention_imbalance", "Attention of the busiest context-parallel rank above the mean", "", false,
       [](const M& m) { return m.attention_imbalance; }},
  };
  return list;
}

std::vector<LineGroup> line_groups(std::size_t lines, std::size_t most) {
  const std::size_t groups = std::min(lines, most);
  std::vector<LineGroup> result;
  for (std::size_t i = 0; i < groups; ++i) result.push_back({lines * i / groups, lines * (i + 1) / groups});
  return result;
}

std::optional<Extent> extent_of(const Quantity& quantity, std::span<const StepMetrics> lines) {
  Extent extent{INFINITY, -INFINITY, 0};
  std::int64_t count = 0;
  for (const StepMetrics& line : lines) {
    const std::optional<double> value = quantity.of(line);
    if (!value || !std::isfinite(*value)) continue;
    extent.low = std::min(extent.low, *value);
    extent.high = std::max(extent.high, *value);
    extent.mean += *value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  // Keeps the mean of equal values equal to them.
  extent.mean = std::clamp(extent.mean / static_cast<double>(count), extent.low, extent.high);
  return extent;
}

}  // namespace rondo

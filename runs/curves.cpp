#include "runs/curves.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace rondo {

std::span<const Quantity, kQuantities> quantities() {
  using M = StepMetrics;
  using Value = std::optional<double>;
  static constexpr Quantity list[kQuantities] = {
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

std::size_t quantity_named(std::string_view name) {
  const auto all = quantities();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Quantity& q) { return q.name == name; });
  RONDO_ASSERT(it != all.end(), "no quantity has this name");
  return static_cast<std::size_t>(it - all.begin());
}

void Extent::add(const Extent& other) {
  low = std::min(low, other.low);
  high = std::max(high, other.high);
  sum += other.sum;
  count += other.count;
}

double Extent::mean() const { return std::clamp(sum / static_cast<double>(count), low, high); }

void LineGroup::add(const LineGroup& next) {
  last = next.last;
  lines += next.lines;
  seconds = next.seconds;
  for (std::size_t i = 0; i < kQuantities; ++i) extents[i].add(next.extents[i]);
}

std::vector<LineGroup> merged(std::span<const LineGroup> groups, std::size_t most) {
  const std::size_t count = std::min(groups.size(), most);
  std::vector<LineGroup> result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = groups.size() * i / count, end = groups.size() * (i + 1) / count;
    LineGroup& group = result.emplace_back(groups[first]);
    for (const LineGroup& next : groups.subspan(first + 1, end - first - 1)) group.add(next);
  }
  return result;
}

void BestLoss::add(std::int64_t step, double loss) {
  last = loss;
  if (!std::isfinite(loss) || loss == 0 || best <= loss) return;
  best = loss;
  best_step = step;
}

void StepSeries::Groups::add(const LineGroup& line) {
  if (!groups.empty() && groups.back().lines < lines_of_a_group) {
    groups.back().add(line);
    return;
  }
  if (groups.size() == kMaxGroups) {  // an even number of full groups
    groups = merged(groups, kMaxGroups / 2);
    lines_of_a_group *= 2;
  }
  groups.push_back(line);
}

void StepSeries::add(const StepMetrics& line) {
  LineGroup group{.last = line, .lines = 1, .seconds = seconds_ += line.step_time_s, .extents = {}};
  for (std::size_t i = 0; i < kQuantities; ++i)
    if (const auto value = quantities()[i].of(line); value && std::isfinite(*value))
      group.extents[i] = {*value, *value, *value, 1};
  all_.add(group);
  loss_.add(line.step, line.loss);
  if (line.validation_loss) {
    validations_.add(group);
    validation_loss_.add(line.step, *line.validation_loss);
  }
  if (recent_.size() == kRecentLines) recent_.pop_front();
  recent_.push_back(line);
  ++lines_;
}

}  // namespace rondo

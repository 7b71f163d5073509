// Both lists of steps ascend, so one merge finds shared steps and steps of one run only. Without a
// tolerance, numbers are compared by their bits: a difference of one ulp must be found. Any NaN
// equals any NaN, since JSON keeps no payload. Speeds are medians after a warm-up, because the
// first steps of a run record or allocate. Configurations are compared as texts of values, key
// by key.
#include "runs/compare_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "support/median.h"

namespace rondo {
namespace {

// Formats a number as JSON does, or shorter where fp32 holds it.
std::string value_text(double value) {
  const bool is_in_range = value != 0 && std::abs(value) <= std::numeric_limits<float>::max();
  const float single = is_in_range ? static_cast<float>(value) : 0;
  return is_in_range && single == value ? fmt::format("{}", single) : json_number(value);
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

double relative_difference(double a, double b) {
  if (a == b) return 0;
  const double larger = std::max(std::abs(a), std::abs(b));
  return std::isfinite(larger) ? std::abs(a - b) / larger : std::numeric_limits<double>::infinity();
}

bool agree(double a, double b, std::optional<double> tolerance) {
  return same_bits(a, b) || (tolerance && relative_difference(a, b) <= *tolerance);
}

std::optional<Difference> difference_of(const StepMetrics& a, const StepMetrics& b,
                                        std::optional<double> tolerance) {
  struct Quantity {
    const char* name;
    double a, b;
    std::optional<double> tolerance;
  };
  const Quantity quantities[] = {{"loss", a.loss, b.loss, tolerance},
                                 {"grad_norm", a.grad_norm, b.grad_norm, tolerance},
                                 {"lr", a.lr, b.lr, std::nullopt}};
  for (const Quantity& q : quantities)
    if (!agree(q.a, q.b, q.tolerance))
      return Difference{.step = a.step,
                        .quantity = q.name,
                        .a = value_text(q.a),
                        .b = value_text(q.b),
                        .relative = relative_difference(q.a, q.b)};
  if (!tolerance && a.state_hash && b.state_hash && *a.state_hash != *b.state_hash)
    return Difference{.step = a.step,
                      .quantity = "state_hash",
                      .a = *a.state_hash,
                      .b = *b.state_hash,
                      .relative = std::numeric_limits<double>::quiet_NaN()};
  return std::nullopt;
}

std::int64_t tokens_of_last_step(const StepSeries& steps) {
  if (steps.empty()) return 0;
  const StepMetrics& last = steps.last();
  if (steps.lines() == 1) return last.tokens_seen / std::max<std::int64_t>(1, last.step);
  const StepMetrics& before = *std::prev(steps.recent().end(), 2);
  return (last.tokens_seen - before.tokens_seen) / std::max<std::int64_t>(1, last.step - before.step);
}

}  // namespace

Speed speed_of(const StepSeries& steps) {
  const std::vector<LineGroup>& groups = steps.groups();
  const std::size_t memory = quantity_named("memory_gib");
  const std::size_t warm_up = groups.size() > 1 ? std::max<std::size_t>(1, groups.size() / 10) : 0;
  std::vector<double> tokens_per_s, step_time_s;
  Speed speed;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    speed.peak_memory_gib = std::max(speed.peak_memory_gib, groups[i].extents[memory].high);
    if (i < warm_up) continue;
    tokens_per_s.push_back(groups[i].last.tokens_per_s);
    step_time_s.push_back(groups[i].last.step_time_s);
  }
  speed.tokens_per_s = median(std::move(tokens_per_s));
  speed.step_time_s = median(std::move(step_time_s));
  return speed;
}

std::vector<ConfigRow> config_rows(const std::vector<const RunLog*>& runs) {
  std::set<std::string> keys;
  for (const RunLog* run : runs)
    for (const auto& [key, value] : run->config) keys.insert(key);
  std::vector<ConfigRow> rows;
  for (const std::string& key : keys) {
    ConfigRow& row = rows.emplace_back(ConfigRow{key, {}});
    for (const RunLog* run : runs) {
      const auto it = run->config.find(key);
      row.values.push_back(it == run->config.end() ? "(absent)" : it->second);
    }
  }
  return rows;
}

std::vector<ConfigRow> config_differences(const std::vector<const RunLog*>& runs) {
  const bool all_configured =
      std::none_of(runs.begin(), runs.end(), [](const RunLog* run) { return run->config.empty(); });
  if (!all_configured) return {};
  std::vector<ConfigRow> rows = config_rows(runs);
  ConfigRow& tokens = rows.emplace_back(ConfigRow{"tokens a step", {}});
  for (const RunLog* run : runs) tokens.values.push_back(fmt::format("{}", tokens_of_last_step(run->steps)));
  std::erase_if(rows, [](const ConfigRow& row) {
    return std::all_of(row.values.begin(), row.values.end(),
                       [&](const std::string& value) { return value == row.values[0]; });
  });
  return rows;
}

Comparison compare_runs(const std::filesystem::path& a, const std::filesystem::path& b,
                        std::optional<double> tolerance) {
  Comparison result;
  StepReader left_reader(a, CutLine::refused), right_reader(b, CutLine::refused);
  auto left = left_reader.next(), right = right_reader.next();
  while (left || right) {
    if (!right || (left && left->step < right->step)) {
      result.only_in_a.push_back(left->step);
      left = left_reader.next();
    } else if (!left || right->step < left->step) {
      result.only_in_b.push_back(right->step);
      right = right_reader.next();
    } else {
      ++result.shared_steps;
      if (!tolerance && left->state_hash && right->state_hash) ++result.hashed_steps;
      if (!result.first_difference) result.first_difference = difference_of(*left, *right, tolerance);
      left = left_reader.next();
      right = right_reader.next();
    }
  }
  return result;
}

std::string step_list(const std::vector<std::int64_t>& steps) {
  std::string text;
  for (std::size_t first = 0; first < steps.size();) {
    std::size_t last = first;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last > first ? fmt::format("{}-{}", steps[first], steps[last]) : fmt::format("{}", steps[first]);
    first = last + 1;
  }
  return text;
}

}  // namespace rondo

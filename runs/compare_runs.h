// Runs side by side: where the numbers of two part, what configurations differ in, how fast each was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runs/read_run.h"

namespace rondo {

struct Difference {
  std::int64_t step = 0;
  std::string quantity;  // "loss", "grad_norm", "lr" or "state_hash"
  std::string a, b;      // as metrics.jsonl writes them
  double relative = 0;   // |a - b| / max(|a|, |b|); NaN for a hash
};

struct ConfigRow {
  std::string key;
  std::vector<std::string> values;  // of each run as TOML; "(absent)" where the run does not have the key
};
// Every key that a run has, in their order.
std::vector<ConfigRow> config_rows(const std::vector<const RunLog*>& runs);
// Those with different values; none where a run has no config.toml.
std::vector<ConfigRow> config_differences(const std::vector<const RunLog*>& runs);

// Medians over the lines after the warm-up (the first tenth, at least one line where there are more).
struct Speed {
  double tokens_per_s = 0;
  double step_time_s = 0;
  double peak_memory_gib = 0;  // over all lines
};
Speed speed_of(const std::vector<StepMetrics>& lines);

struct Comparison {
  std::optional<Difference> first_difference;  // in the order of steps, then of the quantities above
  std::vector<std::int64_t> only_in_a, only_in_b;
  std::int64_t shared_steps = 0;
  std::int64_t hashed_steps = 0;  // shared steps where both have a state_hash that was compared

  bool equal() const { return !first_difference && only_in_a.empty() && only_in_b.empty(); }
};

// Bits are compared (any NaN equals any NaN). With a `tolerance` loss and grad_norm may differ by that much
// relatively, and hashes are not looked at.
Comparison compare_runs(const RunLog& a, const RunLog& b, std::optional<double> tolerance);

// "1-3, 7" for {1, 2, 3, 7}.
std::string step_list(const std::vector<std::int64_t>& steps);

}  // namespace rondo

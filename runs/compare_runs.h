// Compares runs: where the numbers of two runs first differ, how configurations differ, and how
// fast each was.
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
  std::vector<std::string> values;  // the value of each run as TOML; "(absent)" for a run without the key
};
// Returns a row for every key of any run, sorted by key.
std::vector<ConfigRow> config_rows(const std::vector<const RunLog*>& runs);
// Returns the rows with different values; none if a run has no config.toml. The last row compares
// the tokens of the last step, which follow from several keys and the number of ranks.
std::vector<ConfigRow> config_differences(const std::vector<const RunLog*>& runs);

// Medians over the lines after the warm-up, which is the first tenth, and at least one line if
// there are several. Of a long run, they are over an even sample of the lines.
struct Speed {
  double tokens_per_s = 0;
  double step_time_s = 0;
  double peak_memory_gib = 0;  // over all lines
};
Speed speed_of(const StepSeries& steps);

struct Comparison {
  std::optional<Difference> first_difference;  // in the order of steps, then of the quantities above
  std::vector<std::int64_t> only_in_a, only_in_b;
  std::int64_t shared_steps = 0;
  std::int64_t hashed_steps = 0;  // shared steps for which both state hashes were compared

  bool equal() const { return !first_difference && only_in_a.empty() && only_in_b.empty(); }
};

// Compares the runs of two folders; throws as read_run. Compares bits; any NaN equals any NaN. With
// a `tolerance`, loss and grad_norm may differ by this relative amount, and hashes are not
// compared.
Comparison compare_runs(const std::filesystem::path& a, const std::filesystem::path& b,
                        std::optional<double> tolerance);

// Returns "1-3, 7" for {1, 2, 3, 7}.
std::string step_list(const std::vector<std::int64_t>& steps);

}  // namespace rondo

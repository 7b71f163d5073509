#include "runs/curves.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "runs/rank_runs.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

StepSeries series_of(const std::vector<StepMetrics>& lines) {
  StepSeries series;
  for (const StepMetrics& line : lines) series.add(line);
  return series;
}

RunLog log_of(const std::vector<StepMetrics>& lines) { return {"run", series_of(lines), {}}; }

}  // namespace

TEST_CASE("a curve has the requested number of consecutive groups that contain every line") {
  for (const std::int64_t lines : {1, 5, 599, 600, 601, 10'000}) {
    CAPTURE(lines);
    const StepSeries series = series_of(steps(1, lines));
    const std::vector<LineGroup> groups = merged(series.groups(), 600);
    CHECK(std::ssize(groups) == std::min<std::int64_t>(lines, 600));
    std::int64_t count = 0;
    for (const LineGroup& group : groups) {
      count += group.lines;
      CHECK(group.last.step == count);
    }
    CHECK(count == lines);
  }
  CHECK(merged({}, 600).empty());
}

TEST_CASE("a run of any length has a bounded number of groups, and loses no line of them") {
  constexpr std::int64_t kLines = 5 * StepSeries::kMaxGroups / 2 + 1;
  const StepSeries series = series_of(steps(1, kLines));
  CHECK(series.lines() == kLines);
  CHECK(series.groups().size() <= StepSeries::kMaxGroups);
  CHECK(series.recent().size() == StepSeries::kRecentLines);
  std::int64_t count = 0;
  for (const LineGroup& group : series.groups()) CHECK(group.last.step == (count += group.lines));
  CHECK(count == kLines);
  CHECK(series.groups().back().seconds == 3.0 + 0.5 * (kLines - 1));
  CHECK(series.loss().best_step == kLines);
}

TEST_CASE("one outlier in a hundred thousand steps is in the drawn curve") {
  std::vector<StepMetrics> lines = steps(1, 100'000);
  lines[77'777].grad_norm = 1e6;
  const StepSeries series = series_of(lines);
  double highest = 0;
  for (const LineGroup& group : merged(series.groups(), 600))
    highest = std::max(highest, group.extents[quantity_named("grad_norm")].high);
  CHECK(highest == 1e6);
}

TEST_CASE("values that are missing or not finite are left out of a curve") {
  std::vector<StepMetrics> lines = steps(1, 3);
  lines[0].loss = NAN;
  lines[1].loss = INFINITY;
  const std::vector<LineGroup> all = merged(series_of(lines).groups(), 1);
  const Extent& extent = all[0].extents[quantity_named("loss")];
  CHECK((extent.low == 7.7 && extent.high == 7.7 && extent.mean() == 7.7));
  CHECK(all[0].extents[quantity_named("validation_loss")].count == 0);
  CHECK(merged(series_of({lines[0], lines[1]}).groups(), 1)[0].extents[quantity_named("loss")].count == 0);
}

TEST_CASE("losses are compared at the tokens that all runs have seen, for any batches") {
  // Twice the batch: the same tokens in half the steps.
  std::vector<StepMetrics> large = steps(1, 10);
  for (StepMetrics& line : large) line.tokens_seen *= 2;
  const RunLog a = log_of(steps(1, 40)), b = log_of(large);
  const Ranking ranking = rank_runs({&a, &b});
  CHECK(ranking.tokens == 20'000);
  CHECK(ranking.losses[0].loss == (6.1 + 6.0) / 2);  // steps 19 and 20
  CHECK(ranking.losses[1].loss == 7.0);              // step 10
  CHECK(ranking.best_first == std::vector<std::size_t>{0, 1});
}

TEST_CASE(
    "the loss is interpolated between two validations, and the training loss decides if a run has none") {
  std::vector<StepMetrics> often = steps(1, 20), once = often;
  often[9].validation_loss = 6;
  often[19].validation_loss = 5;
  once[14].validation_loss = 5.25;
  const RunLog a = log_of(often), b = log_of(once), c = log_of(steps(1, 20));
  const Ranking ranking = rank_runs({&a, &b});
  CHECK(ranking.by_validation);
  CHECK(ranking.validation_tokens == 15'000);
  CHECK(ranking.losses[0].validation_loss == 5.5);
  CHECK(ranking.best_first == std::vector<std::size_t>{1, 0});
  CHECK_FALSE(rank_runs({&a, &b, &c}).by_validation);
}

TEST_CASE("a run whose loss is not finite is ranked last") {
  std::vector<StepMetrics> broken = steps(1, 20);
  broken[19].loss = NAN;
  const RunLog a = log_of(broken), b = log_of(steps(1, 20));
  CHECK(rank_runs({&a, &b}).best_first == std::vector<std::size_t>{1, 0});
}

}  // namespace rondo

#include "runs/curves.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "runs/rank_runs.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

const Quantity& quantity(std::string_view name) {
  return *std::find_if(quantities().begin(), quantities().end(),
                       [&](const Quantity& q) { return q.name == name; });
}

RunLog log_of(std::vector<StepMetrics> lines) { return {"run", std::move(lines), {}}; }

}  // namespace

TEST_CASE("line_groups returns the requested number of consecutive groups that contain every line") {
  for (const std::size_t lines : {1, 5, 599, 600, 601, 10'000}) {
    CAPTURE(lines);
    const std::vector<LineGroup> groups = line_groups(lines, 600);
    CHECK(groups.size() == std::min<std::size_t>(lines, 600));
    std::size_t next = 0, smallest = lines, largest = 0;
    for (const LineGroup& group : groups) {
      CHECK(group.first == next);
      next = group.last;
      smallest = std::min(smallest, group.last - group.first);
      largest = std::max(largest, group.last - group.first);
    }
    CHECK(next == lines);
    CHECK((smallest >= 1 && largest - smallest <= 1));
  }
  CHECK(line_groups(0, 600).empty());
}

TEST_CASE("one outlier in ten thousand steps is in the drawn curve") {
  std::vector<StepMetrics> lines = steps(1, 10'000);
  lines[7777].grad_norm = 1e6;
  double highest = 0;
  for (const LineGroup& group : line_groups(lines.size(), 600))
    highest = std::max(highest, extent_of(quantity("grad_norm"),
                                          std::span(lines).subspan(group.first, group.last - group.first))
                                    ->high);
  CHECK(highest == 1e6);
}

TEST_CASE("values that are missing or not finite are left out of a curve") {
  std::vector<StepMetrics> lines = steps(1, 3);
  lines[0].loss = NAN;
  lines[1].loss = INFINITY;
  const Extent extent = *extent_of(quantity("loss"), lines);
  CHECK((extent.low == 7.7 && extent.high == 7.7 && extent.mean == 7.7));
  CHECK_FALSE(extent_of(quantity("validation_loss"), lines));
  CHECK_FALSE(extent_of(quantity("loss"), std::span(lines).first(2)));
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

// The loss of one step is noisy, so the training loss is a mean over a range of tokens. The range
// is the same for every run, for any batch. Of a long run, a group of lines counts where it ends.
#include "runs/rank_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rondo {
namespace {

double loss_at(const RunLog& run, std::int64_t tokens) {
  const std::size_t loss = quantity_named("loss");
  Extent extent;
  std::int64_t lines = 0;
  const LineGroup* nearest = &run.steps.groups().front();
  for (const LineGroup& group : run.steps.groups()) {
    if (group.last.tokens_seen > tokens) break;
    nearest = &group;
    if (group.last.tokens_seen <= tokens - tokens / 10) continue;
    extent.add(group.extents[loss]);
    lines += group.lines;
  }
  if (extent.count < lines) return NAN;  // a loss that is not finite
  return lines > 0 ? extent.sum / static_cast<double>(lines) : nearest->last.loss;
}

std::optional<std::int64_t> last_validation(const RunLog& run) {
  const std::vector<LineGroup>& groups = run.steps.validations();
  return groups.empty() ? std::nullopt : std::optional(groups.back().last.tokens_seen);
}

// REQUIRES: a validation at or after `tokens`.
double validation_loss_at(const RunLog& run, std::int64_t tokens) {
  const StepMetrics* before = nullptr;
  for (const LineGroup& group : run.steps.validations()) {
    const StepMetrics& line = group.last;
    if (line.tokens_seen >= tokens) {
      if (before == nullptr || line.tokens_seen == tokens) return *line.validation_loss;
      const double share = static_cast<double>(tokens - before->tokens_seen) /
                           static_cast<double>(line.tokens_seen - before->tokens_seen);
      return *before->validation_loss + share * (*line.validation_loss - *before->validation_loss);
    }
    before = &line;
  }
  return NAN;
}

}  // namespace

Ranking rank_runs(const std::vector<const RunLog*>& runs) {
  Ranking ranking;
  ranking.tokens = runs[0]->steps.last().tokens_seen;
  std::optional<std::int64_t> validated = last_validation(*runs[0]);
  for (const RunLog* run : runs) {
    ranking.tokens = std::min(ranking.tokens, run->steps.last().tokens_seen);
    const std::optional<std::int64_t> last = last_validation(*run);
    validated = validated && last ? std::optional(std::min(*validated, *last)) : std::nullopt;
  }
  ranking.by_validation = validated.has_value();
  ranking.validation_tokens = validated.value_or(0);
  for (const RunLog* run : runs) {
    LossAtTokens& at = ranking.losses.emplace_back(LossAtTokens{loss_at(*run, ranking.tokens), {}});
    if (validated) at.validation_loss = validation_loss_at(*run, *validated);
  }
  ranking.best_first.resize(runs.size());
  std::iota(ranking.best_first.begin(), ranking.best_first.end(), std::size_t{0});
  std::stable_sort(ranking.best_first.begin(), ranking.best_first.end(), [&](std::size_t a, std::size_t b) {
    const double left = ranking.loss_of(a), right = ranking.loss_of(b);
    return std::isfinite(left) && (!std::isfinite(right) || left < right);
  });
  return ranking;
}

}  // namespace rondo

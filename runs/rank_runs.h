// Runs side by side at equal tokens: which one learned more from the same number of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runs/read_run.h"

namespace rondo {

// At the tokens below.
struct LossAtTokens {
  double loss = 0;                        // of training, the mean over the last tenth of the tokens
  std::optional<double> validation_loss;  // where all runs have one
};

struct Ranking {
  std::int64_t tokens = 0;             // the most that every run has seen
  std::int64_t validation_tokens = 0;  // the same of their last validations
  std::vector<LossAtTokens> losses;    // of each run, in the order given
  std::vector<std::size_t>
      best_first;              // places in that order; equal ones keep it, what is not finite is last
  bool by_validation = false;  // what they are ordered by; else by the loss of training

  double loss_of(std::size_t run) const {
    return by_validation ? *losses[run].validation_loss : losses[run].loss;
  }
};

// REQUIRES: at least one run. Between two validations of a run its loss is interpolated.
Ranking rank_runs(const std::vector<const RunLog*>& runs);

}  // namespace rondo

// Ranks runs by their loss at equal numbers of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runs/read_run.h"

namespace rondo {

// The losses of a run at the tokens of a Ranking.
struct LossAtTokens {
  double loss = 0;                        // training loss, the mean over the last tenth of the tokens
  std::optional<double> validation_loss;  // present if all runs have one
};

struct Ranking {
  std::int64_t tokens = 0;             // the largest number that every run has reached
  std::int64_t validation_tokens = 0;  // the same for their last validations
  std::vector<LossAtTokens> losses;    // by run, in the order of the input
  // Indices of the runs by loss, stable. Losses that are not finite are last.
  std::vector<std::size_t> best_first;
  bool by_validation = false;  // whether they are ordered by validation loss, else by training loss

  double loss_of(std::size_t run) const {
    return by_validation ? *losses[run].validation_loss : losses[run].loss;
  }
};

// Ranks runs. Interpolates the loss between two validations of a run. REQUIRES: at least one run.
Ranking rank_runs(const std::vector<const RunLog*>& runs);

}  // namespace rondo

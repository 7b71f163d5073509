// Searches for ways to run a job that does not fit, over layouts, losses, memory policies and
// batches (variants.h), and returns the fastest first. Each is planned whole before it is returned,
// so each fits by its own plan and takes less memory than the job.
//
// The search first keeps the ranks and the sequences of a step. If nothing fits, it tries fewer
// sequences, if the configuration leaves them open, and then more and more ranks. Each of these
// searches has half of the remaining time. Single-threaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/variants.h"

namespace rondo {

struct Remedy {
  std::vector<std::string> flags;  // in addition to the job's own
  std::int64_t world = 1;
  std::int64_t total_bytes = 0;  // of a rank
  std::int64_t tokens_per_step = 0;
  std::int64_t microbatches = 1;
  double tokens_per_s = 0;  // over all ranks
};

struct SearchLimits {
  double seconds = 30;
  std::size_t remedies = 5;
};

struct Remedies {
  // Sorted by speed. Omits a way that makes all changes of a faster one and more.
  std::vector<Remedy> found;
  std::int64_t estimated = 0;       // from plans of a few layers
  std::int64_t planned = 0;         // as whole plans
  std::vector<std::string> failed;  // ways that could not be planned, and why
  std::int64_t not_searched = 0;    // ways left when the time ended
  double seconds = 0;
  std::int64_t most_ranks = 1;  // largest number of ranks searched
  // Minimum number of ranks for parameters and optimizer state alone.
  std::int64_t least_ranks_for_state = 1;
};

// Searches for ways to fit. `plan` is of `job` and does not fit. Throws what plan_job throws,
// except for ways that break a rule.
Remedies find_remedies(const Variant& job, const JobPlan& plan, const SearchLimits& limits = {});

// Searches for faster ways that fit. `plan` is of `job` and has several microbatches a step. Each
// way is planned whole. First come the other gradient sync, then other schedules and numbers of
// stages of a pipeline. Each of these then gets stages that take equally long, or fewer pending
// microbatches if it does not fit. Last comes the fastest with smaller and larger microbatches.
Remedies find_faster(const Variant& job, const JobPlan& plan, const SearchLimits& limits = {});

}  // namespace rondo

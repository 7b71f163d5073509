// What would make a job fit that does not: ways to run it, searched over layouts, the loss, memory policies
// and batches (variants.h), the fastest first. Each is planned whole before it is named, so each fits by its
// own plan, and takes less memory than the job.
//
// First the ranks and the sequences of a step stay as they are; where nothing fits, a step may have fewer
// sequences, if the configuration leaves them open; then there are more and more ranks. Each of these has
// half of the time that is left. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/variants.h"

namespace rondo {

struct Remedy {
  std::vector<std::string> flags;  // what to type besides the job's own
  std::int64_t world = 1;
  std::int64_t total_bytes = 0;  // of a rank
  std::int64_t tokens_per_step = 0;
  std::int64_t microbatches = 1;
  double tokens_per_s = 0;  // of all ranks
};

struct SearchLimits {
  double seconds = 30;
  std::size_t remedies = 5;
};

struct Remedies {
  // By speed. One that changes all that a faster one changes, and more, is left out.
  std::vector<Remedy> found;
  std::int64_t estimated = 0;       // from plans of a few layers
  std::int64_t planned = 0;         // whole
  std::vector<std::string> failed;  // ways that could not be planned, and why
  std::int64_t not_searched = 0;    // ways that the time did not suffice for
  double seconds = 0;
  std::int64_t most_ranks = 1;  // that were searched
  // Parameters and optimizer alone: the ranks that they need, whatever else is chosen.
  std::int64_t least_ranks_for_state = 1;
};

// `plan`: of `job`, which does not fit. Throws what plan_job throws, but for what breaks a rule.
Remedies find_remedies(const Variant& job, const JobPlan& plan, const SearchLimits& limits = {});

// Ways of a step of several microbatches that fit, and are faster than `plan`, of `job`; each planned whole:
// gradients reduced as often as the job does not; of a pipeline then other schedules and numbers of stages;
// each of these with stages that take equally long, or with fewer pending microbatches where it does not fit;
// and the fastest with smaller and larger microbatches.
Remedies find_faster(const Variant& job, const JobPlan& plan, const SearchLimits& limits = {});

}  // namespace rondo

// Searches for faster ways to run a job, and for ways that fit if it does not fit. A way is a set
// of changed keys. Each way that is returned was planned whole, so it fits by its own plan.
//
// The search is anytime and deterministic. For a job that does not fit, it begins with the ways
// that take least memory. It takes changes of single keys next, then changes all keys together by
// coordinate descent, and reports each way that is better than all before. Its work is counted in
// plans, so the result does not depend on the speed of the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/search_limit.h"
#include "plan/variants.h"

namespace rondo {

struct Way {
  std::vector<std::string> flags;    // in addition to the job's own
  std::vector<std::string> changes;  // of the training beyond rounding, in words (training_changes)
  std::int64_t world = 1;
  std::int64_t total_bytes = 0;  // of a rank
  std::int64_t tokens_per_step = 0;
  std::int64_t microbatches = 1;
  double step_s = 0;
  double tokens_per_s = 0;  // over all ranks
};

// A way that was better than all before, and the work until then.
struct Improvement {
  Way way;
  std::int64_t plans = 0;
  double cpu_s = 0;  // processor time of the search
};

struct SearchLimits {
  std::int64_t plans = kDefaultSearchPlans;  // of a few layers, or whole
  std::size_t ways = 5;                      // in each list of the result
  std::function<void(const Improvement&)> improved = {};
};

// Lists are sorted by speed. They omit a way that makes all changes of a faster one and more.
struct SearchResult {
  std::vector<Way> same_training;     // the tokens of a step stay, and training changes by rounding at most
  std::vector<Way> changed_training;  // the tokens of a step stay, faster than all of `same_training`
  std::vector<Way> other_tokens;      // other numbers of tokens a step, faster than all of the above
  std::vector<Improvement> improvements;
  std::int64_t estimated = 0;   // ways, from plans of a few layers
  std::int64_t planned = 0;     // ways, whole
  std::int64_t impossible = 0;  // ways that no rule forbids but that cannot be planned
  bool is_complete = false;     // ended before the plans of the limit
  double seconds = 0;
  std::int64_t most_ranks = 1;  // largest number of ranks searched
  // Minimum number of ranks for parameters and optimizer state alone.
  std::int64_t least_ranks_for_state = 1;

  // Returns the fastest way with the tokens of the job's step, or nullptr.
  const Way* best() const {
    if (!changed_training.empty()) return changed_training.data();
    return same_training.empty() ? nullptr : same_training.data();
  }
};

// `plan` is of `job`. The ranks and the sequences of a step stay. If nothing fits, and the
// configuration leaves them open, a step may have fewer sequences; if nothing fits still, there are
// more ranks, up to 64 times as many. Throws what plan_job throws, except for ways that break a
// rule.
SearchResult search_ways(const Variant& job, const JobPlan& plan, const SearchLimits& limits = {});

}  // namespace rondo

// The outcome of a run on one rank: its exit code, and the sentence for the log, exit.json and the
// launcher.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"
#include "trainer/run/trainer.h"

namespace rondo {

struct RunOutcome {
  int exit_code = 0;
  std::optional<int> signal;
  std::string reason = "finished";
};

// Returns the outcome of a stop that all ranks agreed on after `step`.
RunOutcome outcome_of(const Stop& stop, std::int64_t step, const JobConfig& config);

// Returns the outcome of `body`, also when it throws. A peer that stops first breaks the
// collectives of this rank. If this rank has a stop request as well, the outcome is a stop, not a
// failure. Collectives in flight are written to a file (trainer/observe/comm_trace.h).
RunOutcome outcome_of(const std::function<RunOutcome()>& body,
                      const std::function<std::int64_t()>& steps_done, const JobConfig& config,
                      const RankEnvironment& environment);

// Logs the outcome and writes it to the launcher's error file (torchrun's format) and, on rank 0,
// to exit.json. `report`: nullptr on other ranks.
void report_outcome(const RunOutcome& outcome, Report* report);

}  // namespace rondo

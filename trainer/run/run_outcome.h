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

// The outcome of a stop that all ranks agreed on after `step`.
RunOutcome outcome_of(const Stop& stop, std::int64_t step, const JobConfig& config);

// Returns the outcome of `body`, also when it throws. A peer that stops first breaks the
// collectives of this rank; if this rank was asked to stop, too, that is a stop and no failure.
// Collectives in flight are written to a file (trainer/observe/comm_trace.h).
RunOutcome outcome_of(const std::function<RunOutcome()>& body,
                      const std::function<std::int64_t()>& steps_done, const JobConfig& config,
                      const RankEnvironment& environment);

// Logs how the run ended and writes it to exit.json, where `report` is rank 0's, and to the launcher's file
// of errors (torchrun's format).
void tell(const RunOutcome& outcome, Report* report);

}  // namespace rondo

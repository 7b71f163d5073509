// How a run of one rank ended: its exit code, and the sentence that the log, exit.json and the launcher get.
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

// What the ranks agreed on, after `step`.
RunOutcome outcome_of(const Stop& stop, std::int64_t step, const JobConfig& config);

// What `body` ends with, whatever it throws. A peer that was told to stop first breaks the collectives of
// this rank: that is a stop of its own, not a failure. What was under way is written down
// (trainer/observe/comm_trace.h).
RunOutcome outcome_of(const std::function<RunOutcome()>& body,
                      const std::function<std::int64_t()>& steps_done, const JobConfig& config,
                      const RankEnvironment& environment);

// Logs how the run ended and writes it to exit.json, where `report` is rank 0's, and to the launcher's file
// of errors (torchrun's format).
void tell(const RunOutcome& outcome, Report* report);

}  // namespace rondo

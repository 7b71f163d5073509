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
  bool agreed = false;  // all ranks end for this reason, in the same words

  // Returns the outcome of a failure on this rank.
  static RunOutcome failed(ExitCode code, std::string reason);
  bool has(ExitCode code) const { return exit_code == static_cast<int>(code); }
};

// Returns the outcome of a stop that all ranks agreed on.
RunOutcome outcome_of(const Stop& stop, const Reached& reached, const JobConfig& config);
// Returns the outcome of a signal before the ranks agree on signals: no step is lost. The exit code
// is 75 if the run saves checkpoints, since the same command trains as without the signal.
RunOutcome stopped_at_start(int signal, const Reached& reached, const JobConfig& config);

// Returns the outcome of `body`, also when it throws. A peer that stops first breaks the
// collectives of this rank. If this rank has a stop request as well, the outcome is a stop, not a
// failure. Collectives in flight are written to a file (trainer/observe/comm_trace.h).
RunOutcome outcome_of(const std::function<RunOutcome()>& body, const std::function<Reached()>& reached,
                      const JobConfig& config, const RankEnvironment& environment);

// Logs the outcome, an agreed one on rank 0 alone, and writes it to the launcher's error file
// (torchrun's format) and, on rank 0, to exit.json. `report`: nullptr on other ranks.
void report_outcome(const RunOutcome& outcome, Report* report);

}  // namespace rondo

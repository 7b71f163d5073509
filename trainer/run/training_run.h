// Runs `rondo-worker train ...` on one rank: sets up signals, crash reports and the allocator
// before the first tensor, and tears the trainer down within a deadline after every outcome.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"
#include "trainer/observe/report.h"
#include "trainer/run/run_outcome.h"
#include "trainer/run/trainer.h"

namespace rondo {

class TrainingRun {
 public:
  // Reads the configuration (flags `args`) and the environment. `command_line` is recorded in the
  // run folder. Throws Error.
  TrainingRun(const std::vector<std::string>& args, std::vector<std::string> command_line);

  // Trains and tears everything down. Does not throw.
  RunOutcome train();
  // Reports the outcome to log, exit.json and launcher; returns the exit code.
  int end(const RunOutcome& outcome);

 private:
  RunOutcome prepare_and_train();
  void tear_down(const RunOutcome& outcome);
  [[noreturn]] void end_now(const RunOutcome& outcome);
  Report* report() { return report_ ? &*report_ : nullptr; }

  const std::chrono::steady_clock::time_point started_;
  const std::vector<std::string> command_line_;
  const JobConfig config_;
  const RankEnvironment environment_;
  std::optional<Report> report_;  // present on rank 0; outlives the trainer
  std::optional<Trainer> trainer_;
};

}  // namespace rondo

// `rondo-worker train ...` on one rank: what surrounds a Trainer. Signals, crash reports and the
// allocator are set up before the first tensor. The trainer is torn down under a deadline,
// whichever way the run ended.
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
  // Reads the configuration (flags `args`) and the environment. `command_line` goes into the run folder.
  // Throws Error.
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
  std::optional<Report> report_;  // rank 0's; outlives the trainer
  std::optional<Trainer> trainer_;
};

}  // namespace rondo

// A run of one rank, from configuration to the last step.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "support/error.h"
#include "trainer/run/agreement.h"
#include "trainer/run/batch_feed.h"
#include "trainer/run/guards.h"
#include "trainer/run/run.h"
#include "trainer/run/saves.h"
#include "trainer/run/steps_in_flight.h"
#include "trainer/run/stop_request.h"
#include "trainer/run/telemetry.h"

namespace rondo {

// Why a run ended before its last step, and whether it can go on from there.
struct Stop {
  StopRequest request = StopRequest::none;
  int signal = 0;  // with StopRequest::signal
  bool saved = false;
  ExitCode code = ExitCode::resources;  // with StopRequest::full_disk and data
  std::string details = "";             // with these: what failed, on the rank where it did
};

class Trainer {
 public:
  // `report` is rank 0's, nullptr on the others; it and `config` outlive the trainer. job.time_limit_seconds
  // counts from `started`. `on_hang` is called, from a thread of its own, when a step makes no progress; it
  // ends the process. Throws Error(config).
  Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report,
          std::chrono::steady_clock::time_point started, std::function<void(const std::string&)> on_hang);

  // Prepares all that a step needs. The run folder becomes this run's when device, model, data and checkpoint
  // are accepted. False: all steps are done already, and nothing was changed. Throws Error.
  bool prepare();

  // Trains to the last step, or until something asks it to stop, and saves as the configuration says. Throws
  // Error(numerics) at a step that is not finite (the state is then as before that step), where many steps in
  // a row are skipped and where replicas drift apart; Error(peer) when another rank is lost.
  std::optional<Stop> train();

  // Steps whose numbers were read.
  std::int64_t steps_done() const { return run_.progress.step - (steps_ ? steps_->count() : 0); }
  // Waits for what is still being written; deletes nothing more.
  void close_checkpoints() { saves_.close(); }
  // Ends collectives that wait for other ranks, so that the trainer can be destroyed; it is of no other use
  // then. May be called from any thread, while the trainer is destroyed and after that.
  std::function<void()> collective_abort() const;

 private:
  std::optional<Stop> loop();
  void validate();
  void save();
  Agreement agree();
  Stop stop(const Agreement& asked);
  void finish();
  void tell_end() const;

  const std::chrono::steady_clock::time_point started_;
  const std::function<void(const std::string&)> on_hang_;
  const Telemetry tell_;
  Run run_;
  Saves saves_;
  Guards guards_;
  BatchFeed feed_;
  std::optional<StepsInFlight> steps_;    // once the program is compiled
  std::optional<StopRequests> requests_;  // rank 0's
};

}  // namespace rondo

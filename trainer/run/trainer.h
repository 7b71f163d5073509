// Runs training on one rank, from the configuration to the last step.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "support/error.h"
#include "support/stop_signal.h"
#include "trainer/run/agreement.h"
#include "trainer/run/batch_feed.h"
#include "trainer/run/guards.h"
#include "trainer/run/run.h"
#include "trainer/run/saves.h"
#include "trainer/run/steps_in_flight.h"
#include "trainer/run/stop_request.h"
#include "trainer/run/telemetry.h"

namespace rondo {

// The reason why a run stopped before its last step, and whether it can resume from there.
struct Stop {
  StopRequest request = StopRequest::none;
  int signal = 0;  // with StopRequest::signal
  bool saved = false;
  ExitCode code = ExitCode::resources;  // with StopRequest::full_disk and data
  std::string details = "";             // with these: the failure, on the rank where it occurred
};

// How far a run has come.
struct Reached {
  std::int64_t step = 0;         // whose results were read
  std::int64_t checkpoint = -1;  // step of the last checkpoint; -1: none
  bool agrees = false;           // the ranks have begun to agree on stop requests
};

// Ends of a run that other threads call. Each must end the process.
struct EndsAtOnce {
  std::function<void(const std::string& reason)> hang;       // a step makes no progress
  std::function<void(int signal, const Reached&)> at_start;  // before the ranks agree on signals
};

class Trainer {
 public:
  // `report` is nullptr on all ranks except 0. It and `config` must outlive the trainer.
  // job.time_limit_seconds counts from `started`. Throws Error(config).
  Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report,
          std::chrono::steady_clock::time_point started, EndsAtOnce ends);

  // Prepares everything that a step needs. The run folder becomes this run's after device, model,
  // data and checkpoint are accepted. Returns false if all steps were done before; then nothing has
  // changed. Throws Error.
  bool prepare();

  // Trains to the last step or to a stop request, and saves as configured. Throws
  // Error(numerics) at a step that is not finite (the state is then as before that step), after
  // too many consecutive skipped steps, and if replicas drift apart. Throws Error(peer) if
  // another rank is lost.
  std::optional<Stop> train();

  Reached reached() const;
  // Waits for an unfinished write; deletes no more checkpoints.
  void close_checkpoints() { saves_.close(); }
  // Returns a function that aborts collectives that wait for other ranks, so that the trainer can
  // be destroyed; it cannot be used otherwise after that. The function may be called from any
  // thread, during the destruction of the trainer and afterwards.
  std::function<void()> collective_abort() const;

 private:
  std::optional<Stop> loop();
  std::string validation_note() const;
  void expect_labels(std::int64_t labels);
  void validate();
  void save();
  Agreement agree();
  Stop stop(const Agreement& agreement);
  void finish();
  void report_end() const;
  void receive(int signal) const;

  const std::chrono::steady_clock::time_point started_;
  const EndsAtOnce ends_;
  const Telemetry telemetry_;
  Run run_;
  Saves saves_;
  Guards guards_;
  BatchFeed feed_;
  std::optional<StepsInFlight> steps_;    // present after the program is compiled
  std::optional<StopRequests> requests_;  // present on rank 0
  std::uint64_t steps_without_labels_ = 0;
  std::atomic<bool> agrees_ = false;            // on stop requests, with the other ranks
  std::atomic<std::int64_t> starts_from_ = -1;  // step of the checkpoint that the run resumes from
  const StopSignalWatch signals_;               // last: it reads the other members
};

}  // namespace rondo

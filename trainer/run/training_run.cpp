// Sets up a rank and tears it down, in a fixed order. Signal handlers are installed before anything
// takes time, and the allocator before the first tensor. Teardown begins when the outcome is known.
// Executors wait for the device and communicators for each other, and both may hang after another
// rank has hung. So a deadline first aborts the collectives and then ends the process.
#include "trainer/run/training_run.h"

#include <fmt/format.h>

#include <cstdlib>

#include "compiler/execute/cpu_memory.h"
#include "config/load.h"
#include "support/crash_report.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stop_signal.h"
#include "support/watch/deadline.h"
#include "support/watch/progress.h"
#include "trainer/observe/comm_trace.h"

namespace rondo {
namespace {

// The time limit of a teardown before its collectives are aborted. The process ends after
// twice that.
constexpr std::chrono::seconds kTeardownLimit{15};

JobConfig set_up(const std::vector<std::string>& args) {
  install_stop_signals();
  progress::join_launcher();
  cpu_memory::install();  // before the first tensor
  return load_config(args);
}

}  // namespace

TrainingRun::TrainingRun(const std::vector<std::string>& args, std::vector<std::string> command_line)
    : started_(std::chrono::steady_clock::now()),
      command_line_(std::move(command_line)),
      config_(set_up(args)),
      environment_(rank_environment()) {
  const int rank = environment_.rank;
  install_crash_report(rank);
  if (environment_.world_size > 1) set_log_rank(rank);
  set_log_color(!config_.metrics.disable_color_printing);
}

RunOutcome TrainingRun::train() {
  const RunOutcome outcome =
      outcome_of([&] { return prepare_and_train(); },
                 [&] { return trainer_ ? trainer_->reached() : Reached(); }, config_, environment_);
  if (trainer_) tear_down(outcome);
  return outcome;
}

int TrainingRun::end(const RunOutcome& outcome) {
  report_outcome(outcome, report());
  return outcome.exit_code;
}

RunOutcome TrainingRun::prepare_and_train() {
  if (environment_.rank == 0) {
    refuse_stopped(config_.job);
    report_.emplace(config_, command_line_, environment_.world_size);
  }
  const auto on_hang = [&](const std::string& reason) {
    const Deadline deadline({{kTeardownLimit, [] { std::_Exit(static_cast<int>(ExitCode::peer)); }}});
    end_now(RunOutcome::failed(ExitCode::peer, reason + write_comm_trace(config_, environment_, reason) +
                                                   "; comm.train_timeout_seconds gives a step more time"));
  };
  const auto at_start = [&](int signal, const Reached& reached) {
    end_now(stopped_at_start(signal, reached, config_));
  };
  trainer_.emplace(config_, environment_, report(), started_, EndsAtOnce{on_hang, at_start});
  if (!trainer_->prepare()) return {};
  const std::optional<Stop> stop = trainer_->train();
  return stop ? outcome_of(*stop, trainer_->reached(), config_) : RunOutcome{};
}

// Callable from any thread, while others hang.
void TrainingRun::end_now(const RunOutcome& outcome) {
  report_outcome(outcome, report());
  std::_Exit(outcome.exit_code);
}

// Waits for an unfinished write before the deadline begins: a slow disk is not a hang.
void TrainingRun::tear_down(const RunOutcome& outcome) {
  trainer_->close_checkpoints();
  const std::function<void()> abort_collectives = trainer_->collective_abort();
  if (outcome.has(ExitCode::peer)) abort_collectives();
  const auto abort_teardown = [&] {
    RunOutcome hung = outcome;
    hung.reason += fmt::format("; its teardown hung and was aborted after {} s", 2 * kTeardownLimit.count());
    if (outcome.exit_code == 0) log_warning(hung.reason);
    end_now(hung);
  };
  const Deadline deadline({{kTeardownLimit, abort_collectives}, {2 * kTeardownLimit, abort_teardown}});
  trainer_.reset();
}

}  // namespace rondo

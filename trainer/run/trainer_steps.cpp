// One training step of the loop: its batch, its work, what is told of it, and when a step ends the run. A step
// that is not finite ends the run only after the save under way is settled.
#include <fmt/format.h>

#include <cmath>

#include "support/log.h"
#include "support/stopwatch.h"
#include "trainer/run/trainer.h"
#include "trainer/step/lr_schedule.h"

namespace rondo {

// A router that no step moves never finds its balance.
void Trainer::count_skipped(const StepResult& result) {
  constexpr std::int64_t kMost = 10;
  skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
  if (!result.skipped) return;
  const std::string what = fmt::format(
      "step {}: {:.0f} rows of tokens found no room on the ranks of their experts; the step is "
      "skipped",
      progress_.step, result.dropped_tokens);
  if (report_) log_warning(what);
  if (skipped_in_a_row_ < kMost) return;
  if (saver_) saver_->settle();
  throw Error(
      ExitCode::numerics,
      fmt::format("{}, as were the {} before it; parameters and optimizer state are as after step {}. Raise "
                  "parallelism.expert_capacity_factor = {}, set it to 0 (room for all that can come), or set "
                  "parallelism.expert_overflow = \"drop\"",
                  what, kMost - 1, progress_.step - kMost, config_.parallelism.expert_capacity_factor));
}

void Trainer::refuse(const StepResult& result) const {
  const bool loss_is_fine = std::isfinite(result.loss);
  const double value = loss_is_fine ? result.grad_norm : result.loss;
  throw Error(
      ExitCode::numerics,
      fmt::format(
          "step {}: {} is not finite ({}); parameters and optimizer state are as after step {}. Lower "
          "optimizer.lr or training.max_norm, or look at the batch",
          progress_.step, loss_is_fine ? "grad_norm" : "loss", std::isnan(value) ? "nan" : "inf",
          progress_.step - 1));
}

StepResult Trainer::run_step(const StepBatch& batch, double learning_rate) {
  if (!snapshot_) return runner_->run(batch, learning_rate);
  try {
    return runner_->run(batch, learning_rate);
  } catch (const std::exception& failure) {
    snapshot_->step_failed(progress_.step + 1, failure);
    throw;
  }
}

// False: the data fails this rank, which ends the run on all of them once they have agreed on it.
bool Trainer::fetch(DataLoader& data, StepBatch& batch) {
  if (data_trouble_) return false;
  const progress::Work loading(progress::Doing::loading);
  try {
    batch = data.next();
  } catch (const Error& error) {
    if (steps_here_ == 0) throw;  // nothing is lost yet
    data_trouble_ = error;
  }
  return !data_trouble_;
}

void Trainer::fetch_next() {
  const StepWatch::Span watched(*watch_, progress::Doing::loading);
  const Stopwatch waiting;
  fetch(*data_, batch_);
  data_wait_s_ = waiting.seconds();
}

void Trainer::train_one_step() {
  if (profile_) profile_->step_begins(progress_.step + 1);
  std::optional<StepWatch::Span> watched(std::in_place, *watch_, progress::Doing::training);
  const LrScheduler& s = config_.lr_scheduler;
  // The graph takes fp32: what is reported is what was used.
  const float learning_rate =
      static_cast<float>(config_.optimizer.lr * lr_factor(progress_.schedule_step, schedule_steps(config_),
                                                          s.decay_type, s.min_lr_factor));
  const StepResult result = run_step(batch_, learning_rate);
  groups_->refuse_failed();  // what a collective that failed left is no result
  watched.reset();
  ++steps_here_;
  ++progress_.step;
  ++progress_.schedule_step;
  progress_.tokens_seen += batch_.tokens * layout_.data_parallel();
  progress_.data = data_->state();
  if (snapshot_) snapshot_->step_done(progress_.step);
  const std::optional<std::string> hash = inspect_state();
  if (report_) {
    report_->step_done(
        {progress_.step, progress_.tokens_seen, learning_rate, data_wait_s_, hash, validation_is_due()},
        result);
    if (const ReplayFacts* facts = runner_->replay_facts(); facts && steps_here_ == 2)
      report_->replaying(*facts);
  }
  if (profile_) {
    if (report_) report_->pause();
    profile_->step_ends(progress_.step);
    if (report_) report_->go_on();
  }
  if (!result.finite) {
    if (saver_) saver_->settle();  // what was saved before is good
    refuse(result);
  }
  count_skipped(result);
  if (steps_here_ == 1) groups_->set_timeout(std::chrono::seconds(config_.comm.train_timeout_seconds));
}

std::optional<std::string> Trainer::inspect_state() {
  const auto is_due = [this](std::int64_t every) { return every > 0 && progress_.step % every == 0; };
  const bool hashes = is_due(config_.debug.hash_every);
  if (hashes || is_due(config_.debug.check_replicas_every)) refuse_drift();
  return hashes ? std::optional(state_->hash(*groups_)) : std::nullopt;
}

}  // namespace rondo

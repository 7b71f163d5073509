// One training step of the loop: its batch, its work, what is told of it, and when a step ends the run. A
// step that is not finite ends the run only after the save under way is settled.
//
// With metrics.lag = 1 the device has step n + 1 before the host asks for the numbers of step n, and what is
// told of step n is told then. The host has to know sooner wherever something looks at the state or the
// device after a step: validations, saves, hashes, profiles, the last step. Until it knows, StepRunner keeps
// what was begun behind a step that failed from changing anything.
#include <fmt/format.h>

#include <cmath>

#include "support/log.h"
#include "support/stopwatch.h"
#include "trainer/run/trainer.h"
#include "trainer/step/lr_schedule.h"

namespace rondo {
namespace {

bool is_due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }

}  // namespace

// A router that no step moves never finds its balance.
void Trainer::count_skipped(const StepResult& result, std::int64_t step) {
  constexpr std::int64_t kMost = 10;
  skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
  if (!result.skipped) return;
  const std::string what = fmt::format(
      "step {}: {:.0f} rows of tokens found no room on the ranks of their experts; the step is "
      "skipped",
      step, result.dropped_tokens);
  if (report_) log_warning(what);
  if (skipped_in_a_row_ < kMost) return;
  if (saver_) saver_->settle();
  throw Error(
      ExitCode::numerics,
      fmt::format("{}, as were the {} before it; parameters and optimizer state are as after step {}. Raise "
                  "parallelism.expert_capacity_factor = {}, set it to 0 (room for all that can come), or set "
                  "parallelism.expert_overflow = \"drop\"",
                  what, kMost - 1, step - kMost, config_.parallelism.expert_capacity_factor));
}

void Trainer::refuse(const StepResult& result, std::int64_t step) const {
  const bool loss_is_fine = std::isfinite(result.loss);
  const double value = loss_is_fine ? result.grad_norm : result.loss;
  throw Error(
      ExitCode::numerics,
      fmt::format(
          "step {}: {} is not finite ({}); parameters and optimizer state are as after step {}. Lower "
          "optimizer.lr or training.max_norm, or look at the batch",
          step, loss_is_fine ? "grad_norm" : "loss", std::isnan(value) ? "nan" : "inf", step - 1));
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
  // Two steps whose numbers are read together would share one time.
  if (reads_at_once(progress_.step + 1)) finish_steps();
  if (profile_) profile_->step_begins(progress_.step + 1);
  std::optional<StepResult> result;
  try {
    const StepWatch::Span watched(*watch_, progress::Doing::training);
    begin_step();
    if (under_way_.size() > 1 || reads_at_once(progress_.step)) result = wait_for_oldest();
  } catch (const std::exception& failure) {
    if (snapshot_) snapshot_->step_failed(steps_done() + 1, failure);
    throw;
  }
  if (result) step_is_done(*result);
}

void Trainer::begin_step() {
  const LrScheduler& s = config_.lr_scheduler;
  // The graph takes fp32: what is reported is what was used.
  const float learning_rate =
      static_cast<float>(config_.optimizer.lr * lr_factor(progress_.schedule_step, schedule_steps(config_),
                                                          s.decay_type, s.min_lr_factor));
  std::optional<double> imbalance;
  if (layout_.mesh.degree(Axis::cp) > 1 && !config_.parallelism.exchanges_heads())
    imbalance = batch_.attention_imbalance;
  const std::int64_t tokens = batch_.tokens * layout_.mesh.degree(kTokenAxes);
  runner_->begin(std::move(batch_), learning_rate);
  ++progress_.step;
  ++progress_.schedule_step;
  progress_.tokens_seen += tokens;
  progress_.data = data_->state();
  under_way_.push_back({progress_.step,
                        progress_.tokens_seen,
                        learning_rate,
                        data_wait_s_,
                        imbalance,
                        {},
                        validation_is_due(progress_.step)});
}

// Whether the host has to know of a step before it begins the next one.
bool Trainer::reads_at_once(std::int64_t step) const {
  const std::int64_t lag = config_.metrics.lag;
  const bool lags = lag == 1 || (lag == -1 && device_.device.is_cuda());
  return !lags || steps_here_ == 0 || step == last_step() || validation_is_due(step) ||
         inspection_is_due(step) || snapshot_ || (profile_ && profile_->is_beside_window(step));
}

void Trainer::finish_steps() {
  while (!under_way_.empty()) {
    const StepResult result = [&] {
      const StepWatch::Span watched(*watch_, progress::Doing::training);
      return wait_for_oldest();
    }();
    step_is_done(result);
  }
}

StepResult Trainer::wait_for_oldest() {
  progress::at_step(under_way_.front().step);
  StepResult result = runner_->finish();
  groups_->refuse_failed();  // what a collective that failed left is no result
  return result;
}

// The oldest under way.
void Trainer::step_is_done(const StepResult& result) {
  DoneStep done = under_way_.front();
  under_way_.pop_front();
  ++steps_here_;
  if (snapshot_) snapshot_->step_done(done.step);
  done.state_hash = inspect_state(done.step);
  if (report_) {
    report_->step_done(done, result);
    if (const auto facts = runner_->replay_facts(); facts && steps_here_ == 2) report_->replaying(*facts);
  }
  if (profile_) {
    if (report_) report_->pause();
    profile_->step_ends(done.step);
    if (report_) report_->go_on();
  }
  if (!result.finite) {
    if (saver_) saver_->settle();  // what was saved before is good
    refuse(result, done.step);
  }
  count_skipped(result, done.step);
  if (steps_here_ == 1) groups_->set_timeout(std::chrono::seconds(config_.comm.train_timeout_seconds));
}

bool Trainer::inspection_is_due(std::int64_t step) const {
  const Debug& d = config_.debug;
  return is_due(d.hash_every, step) || is_due(d.check_replicas_every, step);
}

std::optional<std::string> Trainer::inspect_state(std::int64_t step) {
  if (inspection_is_due(step)) refuse_drift();
  if (is_due(config_.debug.check_replicas_every, step)) stragglers_.look(*groups_, step);
  return is_due(config_.debug.hash_every, step) ? std::optional(state_->hash(*groups_)) : std::nullopt;
}

}  // namespace rondo

// The training loop. After each step an all-reduce of maxima exchanges stop requests, signals and
// the progress of a save, so all ranks act in the same way. The next batch is fetched before it,
// since a batch that one rank cannot read stops all ranks. A save that began before a numeric
// failure is valid, so it is committed before the run ends.
#include "trainer/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "support/log.h"
#include "trainer/step/from_config.h"

namespace rondo {

Trainer::Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report,
                 std::chrono::steady_clock::time_point started, EndsAtOnce ends)
    : started_(started),
      ends_(std::move(ends)),
      telemetry_(report),
      run_(config, environment),
      saves_(run_, telemetry_),
      guards_(run_),
      feed_(run_),
      signals_([this](int signal) { receive(signal); }) {}

Reached Trainer::reached() const {
  return {run_.progress.step - (steps_ ? steps_->count() : 0),
          std::max(saves_.last_saved_step(), starts_from_.load()), agrees_};
}

// Runs on the thread of `signals_`. Until the first agreement no step is done that a save would
// keep, and the start or the first step may take minutes.
void Trainer::receive(int signal) const {
  if (!agrees_) ends_.at_start(signal, {.checkpoint = starts_from_});
  telemetry_.info(
      fmt::format("received {}; the run ends after this step", describe(StopRequest::signal, signal)));
}

bool Trainer::prepare() {
  open(run_);
  if (!saves_.accept_start()) return false;
  starts_from_ = saves_.start().done.value_or(-1);
  telemetry_(&Report::log_data, run_.data->summary(),
             run_.validation_data ? &run_.validation_data->summary() : nullptr, saves_.start().step,
             saves_.start().tokens_seen);
  if (const std::string note = validation_note(); !note.empty()) telemetry_.info(note);
  compile(run_, telemetry_);
  init_process_groups(run_, telemetry_);
  init_state(run_, ends_.hang);
  steps_.emplace(run_, guards_, telemetry_);
  if (telemetry_.is_writer()) requests_.emplace(run_.config.job, started_);
  return true;
}

std::string Trainer::validation_note() const {
  if (!run_.validation_data) return "";
  const std::int64_t requested = run_.config.validation.steps,
                     steps = validation_steps(run_.config, run_.layout,
                                              run_.validation_data->summary().samples_per_epoch);
  if (requested <= steps) return "";
  return fmt::format("validation: {} step{} read its data once, fewer than validation.steps = {}", steps,
                     steps == 1 ? "" : "s", requested);
}

std::optional<Stop> Trainer::train() {
  saves_.restore();
  if (run_.config.checkpoint.create_seed_checkpoint) {
    saves_.save_seed();
    return std::nullopt;
  }
  try {
    if (run_.config.debug.check_replicas_every > 0) guards_.refuse_drift();
    telemetry_(&Report::training_starts);
    return loop();
  } catch (const Error& error) {
    if (error.code() == ExitCode::numerics) saves_.settle();
    throw;
  }
}

std::optional<Stop> Trainer::loop() {
  const progress::Work in_the_loop(progress::Doing::between_steps);
  if (!run_.is_over()) {
    feed_.fetch();
    expect_labels(run_.groups->maximum({feed_.labels()})[0]);
  }
  while (!run_.is_over()) {
    steps_->begin(feed_);
    if (run_.validates(run_.progress.step)) validate();
    if (!run_.is_over()) feed_.fetch();
    const Agreement agreement = agree();
    if (run_.is_over()) break;
    if (agreement.stops()) return stop(agreement);
    if (agreement.saves() || saves_.due()) save();
    expect_labels(agreement.labels);
  }
  finish();
  return std::nullopt;
}

// `labels`: of the next step, on the rank that has the most. Warns of the 1st, 2nd, 4th, ... step
// without any.
void Trainer::expect_labels(std::int64_t labels) {
  feed_.expect_labels(labels > 0);
  if (labels > 0 || !std::has_single_bit(++steps_without_labels_)) return;
  telemetry_.warn(fmt::format(
      "step {} has no label, so its loss and its gradients are 0 ({} such step{} since the start); with "
      "training.document_attention the last token of a document has no label",
      run_.progress.step + 1, steps_without_labels_, steps_without_labels_ == 1 ? "" : "s"));
}

Agreement Trainer::agree() {
  agrees_ = true;
  StopRequests* const requests = requests_ ? &*requests_ : nullptr;
  const Agreement agreement =
      rondo::agree(run_, request_of_rank(requests, telemetry_, feed_), saves_, guards_);
  if (agreement.saves() && requests != nullptr) {
    if (!saves_.enabled())
      log_warning("SAVE is ignored: this run saves nothing (checkpoint.enable, checkpoint.load_only)");
    requests->forget_save();
  }
  return agreement;
}

void Trainer::validate() {
  telemetry_(&Report::pause);
  run_.validation_data->seek(0);
  const std::int64_t steps =
      validation_steps(run_.config, run_.layout, run_.validation_data->summary().samples_per_epoch);
  LossSum sum;
  std::int64_t tokens = 0;
  const auto skip = [&](const std::string& why) {
    if (!why.empty()) log_warning("validation is skipped: " + why);
    telemetry_(&Report::validation_done, run_.progress.step, std::nullopt, tokens);
  };
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepWatch::Span watched(*run_.watch, progress::Doing::validating);
    const std::optional<StepBatch> batch = feed_.read(*run_.validation_data);
    const bool stops = i > 0 && stop_requested().has_value();
    const std::vector<std::int64_t> any = run_.groups->maximum({!batch, stops});
    if (any[0] != 0) return skip(batch ? "" : feed_.trouble()->what());
    if (any[1] != 0) return skip(telemetry_.is_writer() ? "the run is to stop" : "");
    sum.add(run_.runner->validate(*batch));
    run_.groups->refuse_failed();
    tokens += batch->tokens;
  }
  if (sum.labels == 0) return skip(telemetry_.is_writer() ? "no row of it has a label" : "");
  telemetry_(&Report::validation_done, run_.progress.step, sum.mean(), tokens);
}

// Compares replicas first, since a checkpoint has the state of one of them.
void Trainer::save() {
  if (!saves_.enabled()) return;
  steps_->finish();
  if (run_.config.debug.check_replicas_every > 0) guards_.refuse_drift();
  saves_.save();
}

Stop Trainer::stop(const Agreement& agreement) {
  steps_->finish();
  telemetry_.info(fmt::format("stopping after step {}, as requested by {}", run_.progress.step,
                              describe(agreement.request, agreement.signal)));
  Stop stop{.request = agreement.request, .signal = agreement.signal};
  if (agreement.request == StopRequest::full_disk && telemetry_.is_writer())
    stop.details = telemetry_.report()->trouble();
  if (agreement.request == StopRequest::data) {
    const std::optional<Error>& trouble = feed_.trouble();
    stop.code = trouble ? trouble->code() : ExitCode::peer;
    stop.details = trouble ? trouble->what() : "another rank could not get its batch";
  }
  if (saves_.enabled()) {
    saves_.stop_pruning();
    if (!saves_.is_saved()) {
      save();
      saves_.settle();
    }
    stop.saved = saves_.is_saved();
    run_.groups->barrier();  // no rank leaves before all agree that the step is saved
  }
  report_end();
  return stop;
}

void Trainer::finish() {
  agrees_ = true;  // what is left is to save the last step
  steps_->close_profile();
  if (saves_.enabled()) {
    saves_.settle();
    if (!saves_.is_saved()) save();
    saves_.finish();
  }
  report_end();
}

void Trainer::report_end() const {
  const TrainingProgress& progress = run_.progress;
  telemetry_(&Report::ended, progress.step, progress.schedule_step, progress.tokens_seen,
             saves_.last_saved_step());
}

std::function<void()> Trainer::collective_abort() const {
  return run_.groups ? run_.groups->collective_abort() : [] {};
}

}  // namespace rondo

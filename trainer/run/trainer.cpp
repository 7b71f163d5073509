// The loop. After each step one exchange of maxima carries stop requests, signals and the progress of a save,
// so all ranks do the same; the next batch is fetched before it, since a batch that one rank cannot read stops
// them all. What was saved before a numeric failure is good, so it is committed before the run ends.
#include "trainer/run/trainer.h"

#include <fmt/format.h>

#include "support/log.h"
#include "trainer/step/from_config.h"

namespace rondo {

Trainer::Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report,
                 std::chrono::steady_clock::time_point started,
                 std::function<void(const std::string&)> on_hang)
    : started_(started),
      on_hang_(std::move(on_hang)),
      tell_(report),
      run_(config, environment),
      saves_(run_, tell_),
      guards_(run_),
      feed_(run_) {}

bool Trainer::prepare() {
  open(run_);
  if (!saves_.accept_start()) return false;
  tell_(&Report::log_data, run_.data->summary(),
        run_.validation_data ? &run_.validation_data->summary() : nullptr);
  compile(run_, tell_);
  init_process_groups(run_, tell_);
  init_state(run_, on_hang_);
  steps_.emplace(run_, guards_, tell_);
  if (tell_.is_writer()) requests_.emplace(run_.config.job, started_);
  return true;
}

std::optional<Stop> Trainer::train() {
  saves_.restore();
  if (run_.config.checkpoint.create_seed_checkpoint) {
    saves_.save_seed();
    return std::nullopt;
  }
  try {
    if (run_.config.debug.check_replicas_every > 0) guards_.refuse_drift();
    tell_(&Report::training_starts);
    return loop();
  } catch (const Error& error) {
    if (error.code() == ExitCode::numerics) saves_.settle();
    throw;
  }
}

std::optional<Stop> Trainer::loop() {
  const progress::Work in_the_loop(progress::Doing::between_steps);
  if (!run_.is_over()) feed_.fetch();
  while (!run_.is_over()) {
    steps_->begin(feed_);
    if (run_.validates(run_.progress.step)) validate();
    if (!run_.is_over()) feed_.fetch();
    const Agreement asked = agree();
    if (run_.is_over()) break;
    if (asked.stops()) return stop(asked);
    if (asked.saves() || saves_.due()) save();
  }
  finish();
  return std::nullopt;
}

Agreement Trainer::agree() {
  StopRequests* const requests = requests_ ? &*requests_ : nullptr;
  const Agreement asked = rondo::agree(run_, request_of_rank(requests, tell_, feed_), saves_, guards_);
  if (asked.saves() && requests != nullptr) {
    if (!saves_.enabled())
      log_warning("SAVE is ignored: this run saves nothing (checkpoint.enable, checkpoint.load_only)");
    requests->forget_save();
  }
  return asked;
}

void Trainer::validate() {
  tell_(&Report::pause);
  run_.validation_data->seek(0);
  const std::int64_t steps =
      validation_steps(run_.config, run_.layout, run_.validation_data->summary().samples_per_epoch);
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepWatch::Span watched(*run_.watch, progress::Doing::validating);
    const std::optional<StepBatch> batch = feed_.read(*run_.validation_data);
    if (run_.groups->maximum({!batch})[0] != 0) {
      if (!batch) log_warning(fmt::format("validation is left out: {}", feed_.trouble()->what()));
      tell_(&Report::go_on);
      return;
    }
    sum += run_.runner->validate(*batch);
    run_.groups->refuse_failed();
    tokens += batch->tokens;
  }
  tell_(&Report::validation_done, run_.progress.step, sum / static_cast<double>(steps), tokens);
}

// Replicas are compared first: a checkpoint holds the state of one of them.
void Trainer::save() {
  if (!saves_.enabled()) return;
  steps_->finish();
  if (run_.config.debug.check_replicas_every > 0) guards_.refuse_drift();
  saves_.save();
}

Stop Trainer::stop(const Agreement& asked) {
  steps_->finish();
  tell_.info(fmt::format("{} asks the run to end after step {}", describe(asked.request, asked.signal),
                         run_.progress.step));
  Stop stop{.request = asked.request, .signal = asked.signal};
  if (asked.request == StopRequest::full_disk && tell_.is_writer()) stop.details = tell_.report()->trouble();
  if (asked.request == StopRequest::data) {
    const std::optional<Error>& trouble = feed_.trouble();
    stop.code = trouble ? trouble->code() : ExitCode::peer;
    stop.details = trouble ? trouble->what() : "another rank could not get its batch";
  }
  if (saves_.enabled()) {
    saves_.hurry();
    if (!saves_.is_saved()) {
      save();
      saves_.settle();
    }
    stop.saved = saves_.is_saved();
    run_.groups->barrier();  // no rank leaves before all agree that the step is saved
  }
  tell_end();
  return stop;
}

void Trainer::finish() {
  steps_->close_profile();
  if (saves_.enabled()) {
    saves_.settle();
    if (!saves_.is_saved()) save();
    saves_.finish();
  }
  tell_end();
}

void Trainer::tell_end() const {
  tell_(&Report::ended, run_.progress.step, run_.progress.tokens_seen, saves_.last_saved_step());
}

std::function<void()> Trainer::collective_abort() const {
  return run_.groups ? run_.groups->collective_abort() : [] {};
}

}  // namespace rondo

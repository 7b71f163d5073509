// Restores and saves the state of a run. The last checkpoint is full, so that the run can be
// extended; exports are written next to it. Long work of one rank comes last, after the last
// collective that others would wait in.
#include "trainer/run/saves.h"

#include <fmt/format.h>

#include "checkpoint/committed.h"
#include "checkpoint/hugging_face/folder_writer.h"
#include "checkpoint/save.h"
#include "config/derived/batch.h"
#include "config/derived/paths.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stopwatch.h"
#include "trainer/resume/convert.h"
#include "trainer/step/from_config.h"

namespace rondo {

RestoreRequest Saves::request() const {
  return {run_.config, checkpoint_root(run_.config), run_.layout,
          *run_.model, run_.data->state(),           run_.settings()};
}

bool Saves::accept_start() {
  const JobConfig& config = run_.config;
  const Checkpoint& c = config.checkpoint;
  if (c.enable) start_ = check_start(request(), /*first=*/telemetry_.is_writer());
  if (c.create_seed_checkpoint && start_.done.value_or(0) != 0)
    throw Error(
        ExitCode::config,
        fmt::format("checkpoint.create_seed_checkpoint: this run has checkpoints already, up to step {}; "
                    "choose another job.dump_folder",
                    *start_.done));
  if (start_.finished) {
    join_ranks(run_, /*finished=*/true);
    telemetry_.info(
        fmt::format("{}: {} steps are done, and training.steps is {}. Nothing is left to train, and nothing "
                    "is changed; raise training.steps to continue",
                    start_.checkpoint.string(), *start_.done, config.training.steps));
    return false;
  }
  if (!telemetry_.is_writer()) return true;
  if (c.enable && !c.load_only) lock_ = checkpoint::lock_root(checkpoint_root(config));
  telemetry_(&Report::begin, start_.done ? std::optional(Resumed{*start_.done, start_.begun}) : std::nullopt);
  if (!known_microbatches(config))  // otherwise a note of the configuration says so
    if (const std::string note = few_microbatches(config, run_.layout.microbatches); !note.empty())
      log_warning(note);
  name_crash_file(run_);
  telemetry_(&Report::log_training, run_.costs());
  return true;
}

void Saves::restore() {
  TrainingProgress& progress = run_.progress;
  progress.data = run_.data->state();
  const auto log_data_and_schedule = [&](const std::optional<RatesOfSaved>& saved) {
    run_.data->log_skips();
    telemetry_(&Report::log_schedule, ScheduleStart{progress.step, progress.schedule_step, saved},
               weight_decay_text(run_.config, *run_.model));
  };
  const Checkpoint& c = run_.config.checkpoint;
  if (!c.enable) return log_data_and_schedule({});
  const std::filesystem::path root = checkpoint_root(run_.config);
  const Stopwatch reading;
  const Restored restored = rondo::restore(request(), start_, run_.state->parts(), *run_.groups);
  progress = restored.progress;
  run_.data->restore(progress.data);
  if (restored.resumed)
    telemetry_(&Report::resumed, progress.step, restored.from, reading.seconds());
  else if (!restored.from.empty())
    telemetry_.info(
        (c.initial_load_model_only ? "starts from the weights of " : "starts from the full state of ") +
        restored.from.string());
  log_data_and_schedule(restored.rates);
  if (c.load_only) return;
  if (restored.went_back) set_aside_newer(root);
  const bool writes = run_.layout.mesh.coordinate(run_.groups->rank(), Axis::dp_replicate) == 0;
  saver_ = std::make_unique<CheckpointSaver>(
      c, root, identity_of(run_.config, run_.layout, run_.environment, run_.settings()), *run_.groups,
      telemetry_.report(), writes);
  if (restored.resumed) saver_->counts_as_saved(progress.step);
}

// Moves later checkpoints of a run that went back to an older step; they do not belong to it.
void Saves::set_aside_newer(const std::filesystem::path& root) {
  if (!telemetry_.is_writer()) return;
  if (const auto aside = checkpoint::set_aside_newer(root, run_.progress.step))
    log_warning(
        fmt::format("checkpoints of steps after {} were moved to {}", run_.progress.step, aside->string()));
}

bool Saves::due() const {
  const Checkpoint& c = run_.config.checkpoint;
  return run_.progress.step % c.interval == 0 || (run_.progress.step == 1 && c.enable_first_step_checkpoint);
}

void Saves::save() {
  if (!saver_) return;
  const progress::Work saving(progress::Doing::saving);
  const Telemetry::Pause pause(telemetry_);
  saver_->save(run_.state->parts(), run_.progress);
}

void Saves::settle() {
  if (saver_) saver_->settle();
}

void Saves::stop_pruning() {
  if (saver_) saver_->stop_pruning();
}

void Saves::save_seed() {
  if (saver_->last_saved_step() != 0 &&
      !saver_->save_model(run_.state->parts(), run_.progress, run_.config.training.dtype, /*suffix=*/""))
    throw Error(ExitCode::resources, "the seed checkpoint could not be saved; see the warning above");
  run_.groups->barrier();
}

void Saves::finish() {
  settle();
  if (!is_saved())
    throw Error(ExitCode::resources,
                fmt::format("the last step could not be saved: the warning above says why and what to do. "
                            "Then the same command resumes from {}",
                            last_saved_step() < 0 ? std::string("the start")
                                                  : fmt::format("step {}", last_saved_step())));
  save_weights_alone();
  run_.groups->barrier();
  saver_->finish_pruning();
  if (run_.config.checkpoint.last_save_in_hf && telemetry_.is_writer()) export_weights();
}

void Saves::save_weights_alone() {
  const Checkpoint& c = run_.config.checkpoint;
  if (!c.last_save_model_only) return;
  const std::filesystem::path folder =
      checkpoint_root(run_.config) / fmt::format("step-{}{}", run_.progress.step, checkpoint::kWeights);
  // Rank 0 knows whether an earlier run has saved them.
  if (run_.groups->maximum({telemetry_.is_writer() && checkpoint::has_mark(folder)})[0] != 0) return;
  if (!saver_->save_model(run_.state->parts(), run_.progress, c.export_dtype, checkpoint::kWeights))
    throw Error(
        ExitCode::resources,
        fmt::format("the weights alone could not be saved to {}: the warning above says why and what to "
                    "do. The full checkpoint is saved; then run the same command again",
                    folder.string()));
}

// Converts the last checkpoint on rank 0.
void Saves::export_weights() {
  const std::filesystem::path root = checkpoint_root(run_.config);
  const std::string name = fmt::format("step-{}", run_.progress.step);
  if (std::filesystem::exists(root / (name + "-hf"))) return;  // from an earlier run
  hugging_face::remove_unfinished(root / (name + "-hf"));      // from a killed run
  export_to_hugging_face(root / name, root / (name + "-hf"),
                         {run_.config.checkpoint.export_dtype, tokenizer_name(run_.config)});
  log_info("wrote the weights for Hugging Face to " + (root / (name + "-hf")).string());
}

}  // namespace rondo

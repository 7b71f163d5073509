// What the trainer saves and restores: the checkpoint that a run begins with, those on the way, the last one
// and what is exported from it. All ranks come here at the same steps, since saving is collective.
#include <fmt/format.h>

#include <filesystem>

#include "support/error.h"
#include "support/log.h"
#include "support/stopwatch.h"
#include "trainer/checkpoint/save.h"
#include "trainer/resume/checkpoint_restore.h"
#include "trainer/resume/convert.h"
#include "trainer/run/trainer.h"

namespace rondo {

// Fresh weights are there; what a checkpoint has goes over them.
void Trainer::load_checkpoint() {
  progress_.data = data_->state();
  const Checkpoint& c = config_.checkpoint;
  if (!c.enable) return;
  const std::filesystem::path root = checkpoint_root(config_);
  const Stopwatch reading;
  const Restored restored = restore({config_, root, *model_, progress_.data}, state_->parts(), *groups_);
  progress_ = restored.progress;
  data_->restore(progress_.data);
  if (report_ && restored.resumed) report_->resumed(progress_.step, restored.from, reading.seconds());
  if (report_ && !restored.resumed && !restored.from.empty())
    log_info((c.initial_load_model_only ? "begins with the weights of " : "begins with all the state of ") +
             restored.from.string());
  if (c.load_only) return;
  if (restored.went_back) set_aside_newer(root);
  const bool writes = layout_.mesh.coordinate(groups_->rank(), Axis::dp_replicate) == 0;
  saver_ = std::make_unique<CheckpointSaver>(c, root, identity_, *groups_, report_, writes);
  if (restored.resumed) saver_->counts_as_saved(progress_.step);
}

// The run goes on from an older step: the later ones are no part of it any more.
void Trainer::set_aside_newer(const std::filesystem::path& root) {
  if (!report_) return;
  if (const auto aside = checkpoint::set_aside_newer(root, progress_.step))
    log_warning(
        fmt::format("checkpoints of steps after {} were moved to {}", progress_.step, aside->string()));
}

void Trainer::save() {
  if (!saver_) return;
  if (report_) report_->pause();
  saver_->save(state_->parts(), progress_);
  if (report_) report_->go_on();
}

std::optional<Stop> Trainer::stop(const Agreement& asked) {
  if (report_)
    log_info(fmt::format("{} asks the run to end after step {}", describe(asked.request, asked.signal),
                         progress_.step));
  Stop stopped{asked.request, asked.signal, false};
  if (saver_) {
    saver_->stop_pruning();
    if (saver_->last_saved_step() != progress_.step) {
      save();
      saver_->settle();
    }
    stopped.saved = saver_->last_saved_step() == progress_.step;
    groups_->barrier();  // nobody leaves before all agree that it is saved
  }
  tell_end();
  return stopped;
}

void Trainer::save_seed() {
  if (progress_.step != 0)
    throw Error(
        ExitCode::config,
        fmt::format("checkpoint.create_seed_checkpoint: this run has checkpoints already, up to step {}; "
                    "choose another job.dump_folder",
                    progress_.step));
  if (saver_->last_saved_step() != 0) saver_->save_model(state_->parts(), progress_, config_.training.dtype);
  if (saver_->last_saved_step() != 0)
    throw Error(ExitCode::resources, "the seed checkpoint could not be saved; see the warning above");
  groups_->barrier();
}

void Trainer::finish() {
  if (config_.checkpoint.create_seed_checkpoint) return;
  if (profile_) profile_->finish(progress_.step);
  if (saver_) save_last();
  tell_end();
}

void Trainer::tell_end() {
  if (report_) report_->ended(progress_.step, progress_.tokens_seen, saver_ ? saver_->last_saved_step() : -1);
}

void Trainer::save_last() {
  saver_->settle();
  if (saver_->last_saved_step() != progress_.step) {
    if (config_.checkpoint.last_save_model_only) {
      saver_->save_model(state_->parts(), progress_, config_.checkpoint.export_dtype);
    } else {
      save();
      saver_->settle();
    }
    if (saver_->last_saved_step() != progress_.step)
      throw Error(ExitCode::resources,
                  "the last step could not be saved; see the warning above. Free space, and "
                  "run the same command to go on from the last checkpoint");
  }
  groups_->barrier();
  if (config_.checkpoint.last_save_in_hf && report_) export_weights();
}

// By rank 0 alone, out of the checkpoint that was just committed; the other ranks have nothing left to do.
void Trainer::export_weights() {
  const std::filesystem::path root = checkpoint_root(config_);
  const std::string name = fmt::format("step-{}", progress_.step);
  if (std::filesystem::exists(root / (name + "-hf"))) return;  // of a run that had ended before
  export_to_hugging_face(root / name, root / (name + "-hf"),
                         {config_.checkpoint.export_dtype, tokenizer_name(config_)});
  log_info("wrote the weights for Hugging Face to " + (root / (name + "-hf")).string());
}

}  // namespace rondo

// What the trainer saves and restores: the checkpoint that a run begins with, those on the way, the last one
// and what is exported from it. All ranks come here at the same steps, since saving is collective.
#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/committed.h"
#include "checkpoint/hugging_face/folder_writer.h"
#include "checkpoint/save.h"
#include "config/pipeline_layout.h"
#include "support/crash_report.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stopwatch.h"
#include "trainer/resume/convert.h"
#include "trainer/run/trainer.h"

namespace rondo {

RestoreRequest Trainer::restore_request() const {
  return {config_, checkpoint_root(config_), *model_, data_->state(), settings()};
}

// What the user may have got wrong is known here, and from here on the folders are this run's.
bool Trainer::accept_start() {
  const Checkpoint& c = config_.checkpoint;
  if (c.enable) start_ = check_start(restore_request(), /*first=*/report_ != nullptr);
  if (c.create_seed_checkpoint && start_.done.value_or(0) != 0)
    throw Error(
        ExitCode::config,
        fmt::format("checkpoint.create_seed_checkpoint: this run has checkpoints already, up to step {}; "
                    "choose another job.dump_folder",
                    *start_.done));
  if (start_.finished && report_)
    log_info(
        fmt::format("{}: {} of {} steps are done. Nothing is left to train, and nothing is changed; more "
                    "training.steps go on from there",
                    start_.checkpoint.string(), *start_.done, config_.training.steps));
  if (start_.finished) return false;
  if (!report_) return true;
  if (c.enable && !c.load_only) checkpoint_lock_ = checkpoint::lock_root(checkpoint_root(config_));
  report_->begin(start_.done ? std::optional(Resumed{*start_.done, start_.begun}) : std::nullopt);
  if (!known_microbatches(config_))  // else it is told with the configuration
    if (const std::string note = few_microbatches(config_, layout_.microbatches); !note.empty())
      log_warning(note);
  name_crash_file();
  report_->training(costs());
  return true;
}

void Trainer::name_crash_file() const {
  const std::filesystem::path folder = std::filesystem::absolute(config_.job.dump_folder);
  set_crash_file((folder / fmt::format("rank_{}.crash.txt", environment_.rank)).string());
}

// Fresh weights are there; what a checkpoint has goes over them.
void Trainer::load_checkpoint() {
  progress_.data = data_->state();
  const Checkpoint& c = config_.checkpoint;
  if (!c.enable) return;
  const std::filesystem::path root = checkpoint_root(config_);
  const Stopwatch reading;
  const Restored restored = restore(restore_request(), start_, state_->parts(), *groups_);
  progress_ = restored.progress;
  data_->restore(progress_.data);
  if (report_ && restored.resumed) report_->resumed(progress_.step, restored.from, reading.seconds());
  if (report_ && !restored.resumed && !restored.from.empty())
    log_info((c.initial_load_model_only ? "begins with the weights of " : "begins with all the state of ") +
             restored.from.string());
  if (c.load_only) return;
  if (restored.went_back) set_aside_newer(root);
  const bool writes = layout_.mesh.coordinate(groups_->rank(), Axis::dp_replicate) == 0;
  saver_ = std::make_unique<CheckpointSaver>(c, root, identity_of(config_, layout_, environment_, settings()),
                                             *groups_, report_, writes);
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
  finish_steps();
  const progress::Work saving(progress::Doing::saving);
  if (report_) report_->pause();
  if (config_.debug.check_replicas_every > 0) refuse_drift();
  saver_->save(state_->parts(), progress_);
  if (report_) report_->go_on();
}

std::optional<Stop> Trainer::stop(const Agreement& asked) {
  finish_steps();
  if (report_)
    log_info(fmt::format("{} asks the run to end after step {}", describe(asked.request, asked.signal),
                         progress_.step));
  Stop stopped{asked.request, asked.signal};
  if (asked.request == StopRequest::full_disk && report_) stopped.details = report_->trouble();
  if (asked.request == StopRequest::data) {
    stopped.code = data_trouble_ ? data_trouble_->code() : ExitCode::peer;
    stopped.details = data_trouble_ ? data_trouble_->what() : "another rank could not get its batch";
  }
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
  if (saver_->last_saved_step() != 0 &&
      !saver_->save_model(state_->parts(), progress_, config_.training.dtype, /*suffix=*/""))
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

// The last checkpoint is full, so that the run can be extended; what is asked for stands beside it.
void Trainer::save_last() {
  saver_->settle();
  if (saver_->last_saved_step() != progress_.step) {
    save();
    saver_->settle();
  }
  if (saver_->last_saved_step() != progress_.step)
    throw Error(ExitCode::resources,
                "the last step could not be saved; see the warning above. Free space, and "
                "run the same command to go on from the last checkpoint");
  save_weights_beside();
  groups_->barrier();
  // Last: one rank does this, for longer than the others would wait in a collective.
  saver_->finish_pruning();
  if (config_.checkpoint.last_save_in_hf && report_) export_weights();
}

void Trainer::save_weights_beside() {
  const Checkpoint& c = config_.checkpoint;
  if (!c.last_save_model_only) return;
  const std::filesystem::path there =
      checkpoint_root(config_) / fmt::format("step-{}{}", progress_.step, checkpoint::kWeights);
  // Rank 0 says whether a run that ended before has saved them.
  if (groups_->maximum({report_ && checkpoint::has_mark(there)})[0] != 0) return;
  if (!saver_->save_model(state_->parts(), progress_, c.export_dtype, checkpoint::kWeights))
    throw Error(ExitCode::resources,
                fmt::format("the weights alone could not be saved to {}; see the warning above. The full "
                            "checkpoint is there: free space and run the same command again",
                            there.string()));
}

// By rank 0 alone, out of the checkpoint that was just committed; the other ranks have nothing left to do.
void Trainer::export_weights() {
  const std::filesystem::path root = checkpoint_root(config_);
  const std::string name = fmt::format("step-{}", progress_.step);
  if (std::filesystem::exists(root / (name + "-hf"))) return;  // of a run that had ended before
  hugging_face::remove_unfinished(root / (name + "-hf"));      // of a run that was killed here
  export_to_hugging_face(root / name, root / (name + "-hf"),
                         {config_.checkpoint.export_dtype, tokenizer_name(config_)});
  log_info("wrote the weights for Hugging Face to " + (root / (name + "-hf")).string());
}

}  // namespace rondo

// What a run begins with and what it leaves: the checkpoint or weights that it restores, the checkpoints on the
// way, the last one and its exports. All ranks call the same functions at the same steps: saving is collective.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "support/files/folder_lock.h"
#include "trainer/resume/checkpoint_restore.h"
#include "trainer/resume/checkpoint_saver.h"
#include "trainer/run/run.h"
#include "trainer/run/telemetry.h"

namespace rondo {

class Saves {
 public:
  // Both outlive this.
  Saves(Run& run, const Telemetry& tell) : run_(run), tell_(tell) {}

  // Looks at what the run would begin with, and throws what `restore` would. Only then the run folder and the
  // checkpoint folder become this run's. False: all steps are done already, and nothing was changed.
  bool accept_start();
  // Loads a checkpoint or weights over the initialised state, and opens the saver. Collective.
  void restore();

  // Whether this run saves checkpoints.
  bool enabled() const { return saver_ != nullptr; }
  // Whether a save is due after the current step.
  bool due() const;
  // Saves the state; does nothing where nothing is saved. REQUIRES: no steps in flight.
  void save();
  // A save is being written: on this rank, or on any.
  bool writing() const { return under_way() && saver_->writing(); }
  bool under_way() const { return saver_ && saver_->under_way(); }
  // Waits for all ranks' parts of the save under way and commits it.
  void settle();
  // The last step that was saved; -1: none.
  std::int64_t last_saved_step() const { return saver_ ? saver_->last_saved_step() : -1; }
  bool is_saved() const { return last_saved_step() == run_.progress.step; }

  // Before the save of a run that is asked to end: from here on nothing old is deleted.
  void hurry();
  // Commits the last checkpoint and writes what is asked for beside it. Throws Error(resources) where that
  // fails. REQUIRES: the last step was saved, if it could be.
  void finish();
  // Writes step 0 alone. Throws Error(resources).
  void save_seed();
  // Waits for what is still being written; deletes nothing more.
  void close() { saver_.reset(); }

 private:
  RestoreRequest request() const;
  void set_aside_newer(const std::filesystem::path& root);
  void save_weights_beside();
  void export_weights();

  Run& run_;
  const Telemetry& tell_;
  Start start_;
  std::optional<FolderLock> lock_;          // rank 0's
  std::unique_ptr<CheckpointSaver> saver_;  // nullptr: nothing is saved
};

}  // namespace rondo

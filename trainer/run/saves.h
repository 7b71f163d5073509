// Restores the checkpoint or weights that a run starts from, and saves its checkpoints, the
// last one and its exports. All ranks call the same functions at the same steps, since saving
// is collective.
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
  // Both arguments must outlive this.
  Saves(Run& run, const Telemetry& telemetry) : run_(run), telemetry_(telemetry) {}

  // Checks what the run would start from, and throws what `restore` would throw. After that the run
  // folder and the checkpoint folder become this run's. Returns false if all ranks find that all
  // steps were done before; then nothing has changed.
  bool accept_start();
  // Returns what the run starts with. REQUIRES: accept_start().
  const Start& start() const { return start_; }
  // Loads a checkpoint or weights over the initialised state, and opens the saver. Collective.
  void restore();

  // Returns whether this run saves checkpoints.
  bool enabled() const { return saver_ != nullptr; }
  // Returns whether a save is due after the current step.
  bool due() const;
  // Saves the state if this run saves checkpoints. REQUIRES: no steps in flight.
  void save();
  // Return whether this rank is writing a save, and whether any rank may be.
  bool writing() const { return under_way() && saver_->writing(); }
  bool under_way() const { return saver_ && saver_->under_way(); }
  // Waits for all ranks' parts of an unfinished save and commits it.
  void settle();
  // Returns the last saved step; -1: none.
  std::int64_t last_saved_step() const { return saver_ ? saver_->last_saved_step() : -1; }
  bool is_saved() const { return last_saved_step() == run_.progress.step; }

  // Deletes no checkpoint from here on. Called before the save of a run with a stop request.
  void stop_pruning();
  // Commits the last checkpoint and writes the requested exports next to it. Throws
  // Error(resources) on a failure. REQUIRES: the last step was saved, if it could be.
  void finish();
  // Writes step 0 alone. Throws Error(resources).
  void save_seed();
  // Waits for an unfinished write; deletes no more checkpoints.
  void close() { saver_.reset(); }

 private:
  RestoreRequest request() const;
  void set_aside_newer(const std::filesystem::path& root);
  void save_weights_alone();
  void export_weights();

  Run& run_;
  const Telemetry& telemetry_;
  Start start_;
  std::optional<FolderLock> lock_;          // held by rank 0
  std::unique_ptr<CheckpointSaver> saver_;  // nullptr: this run saves nothing
};

}  // namespace rondo

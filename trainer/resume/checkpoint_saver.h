// Saves a run: copies the parts of the state if training continues meanwhile, writes, commits and
// prunes them with checkpoint/, and keeps the ranks in agreement about the outcome.
//
// All ranks make the same calls at the same steps. `save` and `settle` are collective. Writing is
// not, so it may run on its own thread. Not thread-safe.
//
// Memory: with async_mode one copy of this rank's part of the checkpoint, which is reused by the
// next save; otherwise none.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "checkpoint/shard.h"
#include "config/schema/job_config.h"
#include "parallel/groups/groups.h"
#include "parallel/groups/long_work.h"
#include "support/stopwatch.h"
#include "trainer/observe/report.h"
#include "trainer/resume/checkpoint_cleaner.h"
#include "trainer/resume/run_identity.h"
#include "trainer/resume/training_progress.h"
#include "trainer/step/train_state.h"

namespace rondo {

class CheckpointSaver {
 public:
  // `root`: the folder of the run's checkpoints. Rank 0 (`report` is not null) cleans it in the
  // background. REQUIRES: `root` is locked (checkpoint::lock_root).
  // `writes`: whether this rank writes; one of the ranks that hold the same state does, and rank 0
  // is one of the writers. Config, groups and report must outlive the saver.
  CheckpointSaver(const Checkpoint& config, std::filesystem::path root, RunIdentity identity,
                  ProcessGroups& groups, Report* report, bool writes = true);
  // Abandons an unfinished save; it is never half committed.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves the parameters and the optimizer state with `progress`. Returns when the state may change
  // again: with async_mode after the copy, otherwise after the commit. First settles an unfinished
  // save. A failure is a warning; too many consecutive failures throw Error(resources).
  void save(const std::vector<StatePart>& parts, const TrainingProgress& progress);
  // Saves the parameters alone, as `dtype`, under "step-N" + `suffix`, and waits for the commit.
  // Returns false after a failure, which is a warning.
  bool save_model(const std::vector<StatePart>& parts, const TrainingProgress& progress, Precision dtype,
                  std::string_view suffix);
  // Stops pruning: no checkpoint is deleted or hashed from here on, so that the run can end
  // quickly.
  void stop_pruning() {
    if (cleaner_) cleaner_->stop();
  }
  // Waits on rank 0 until the checkpoints that earlier saves replaced are deleted. Not collective;
  // may take long. REQUIRES: not under_way().
  void finish_pruning() {
    if (cleaner_) cleaner_->finish();
  }

  bool under_way() const { return pending_.has_value(); }
  // Returns whether this rank's part is still being written. REQUIRES: under_way(). `settle` does
  // not wait when no rank is writing.
  bool writing() const;
  // Waits for all ranks' parts and commits the unfinished save, if there is one.
  void settle();

  // Returns the step of the last checkpoint that this object committed, or that counts_as_saved
  // named; -1: none.
  std::int64_t last_saved_step() const { return last_saved_step_; }
  void counts_as_saved(std::int64_t step);

 private:
  struct Pending {
    checkpoint::Kind kind = checkpoint::Kind::full;
    std::string suffix;  // of the folder's name, after "step-N"
    TrainingProgress progress;
    std::filesystem::path temp;
    std::vector<checkpoint::Piece> pieces;
    std::vector<at::Tensor> keeps_alive;  // the memory of the pieces: one tensor each until they are staged
    std::int64_t bytes = 0;               // of all ranks
    Stopwatch stopwatch;                  // since the save began
    double blocked_s = 0;                 // of training
    RankOutcome written;                  // this rank's shard record, if it writes
  };

  void start(Pending pending, bool waits);
  bool open(Pending& pending);
  void stage(Pending& pending);
  void write();
  void commit(const std::vector<std::string>& records);
  void report_failure(std::int64_t step, const std::string& why);
  void report_saved(const Pending& pending);
  std::string key(const char* what) const;

  const Checkpoint& config_;
  const std::filesystem::path root_;
  const RunIdentity identity_;
  ProcessGroups& groups_;
  Report* report_;
  const bool writes_;
  std::optional<Pending> pending_;
  std::atomic<bool> writing_ = false;
  std::optional<CheckpointCleaner> cleaner_;  // on rank 0; held during a save
  std::thread writer_;
  at::Tensor staging_;  // uint8
  std::int64_t saves_ = 0;
  std::int64_t failed_in_a_row_ = 0;
  std::int64_t last_saved_step_ = -1;
};

}  // namespace rondo

// Deletes what is no longer needed in a run's folder of checkpoints, on a thread, while the run
// trains and saves: leftovers of killed saves, and checkpoints that later ones replace.
//
// Hashing may take long, so a save waits only while folders are deleted, and a deletion waits while
// a save changes the folder (hold). All calls come from one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "checkpoint/proven.h"

namespace rondo {

class CheckpointCleaner {
 public:
  // Starts to sweep leftovers of killed saves. `keep_latest_k`: checkpoints that prune() keeps; 0:
  // all. REQUIRES: `root` is locked (checkpoint::lock_root).
  CheckpointCleaner(std::filesystem::path root, std::int64_t keep_latest_k);
  // Ends after the deletion that is under way.
  ~CheckpointCleaner();
  CheckpointCleaner(const CheckpointCleaner&) = delete;
  CheckpointCleaner& operator=(const CheckpointCleaner&) = delete;

  // Blocks deletions until release(). Returns false while one is under way or about to begin.
  bool hold();
  void release();
  // Records that `folder` was just written, with every byte hashed.
  void add_proven(const std::filesystem::path& folder) { proven_.add(folder); }
  // Starts to delete checkpoints that later ones replace. While the thread is busy the prune is
  // left to the next call, or to finish().
  void prune();
  // No checkpoint is deleted or hashed from here on, so that the run can end quickly.
  void stop();
  // Waits until all prunes are done. May take long. REQUIRES: the folder is not held.
  void finish();

 private:
  bool start(std::function<void(const std::stop_token&)> work);
  void delete_exclusively(const std::function<void()>& deletes);
  void sweep_leftovers(const std::stop_token& stop);
  void delete_replaced(const std::stop_token& stop);

  const std::filesystem::path root_;
  const std::int64_t keep_latest_k_;
  checkpoint::Proven proven_;
  std::mutex folder_;                  // locked while the folder changes: by a save or by deletions
  std::unique_lock<std::mutex> held_;  // locks `folder_` between hold() and release()
  std::atomic<bool> busy_ = false;
  std::atomic<bool> deleting_ = false;  // also before a deletion, so that no other save begins
  bool prunes_ = true;
  bool prune_is_due_ = false;  // a prune was left because the thread was busy
  std::jthread thread_;
};

}  // namespace rondo

#include "trainer/resume/checkpoint_cleaner.h"

#include <exception>
#include <string>
#include <utility>

#include "checkpoint/prune.h"
#include "checkpoint/save.h"
#include "support/log.h"

namespace rondo {

CheckpointCleaner::CheckpointCleaner(std::filesystem::path root, std::int64_t keep_latest_k)
    : root_(std::move(root)), keep_latest_k_(keep_latest_k), held_(folder_, std::defer_lock) {
  start([this](const std::stop_token& stop) { sweep_leftovers(stop); });
}

CheckpointCleaner::~CheckpointCleaner() {
  stop();
  release();  // the thread may be waiting for it
  finish();
}

bool CheckpointCleaner::hold() { return held_.owns_lock() || (!deleting_ && held_.try_lock()); }

void CheckpointCleaner::release() {
  if (held_.owns_lock()) held_.unlock();
}

// Returns false if the thread is still busy.
bool CheckpointCleaner::start(std::function<void(const std::stop_token&)> work) {
  if (busy_) return false;
  busy_ = true;
  thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
    try {
      work(stop);
    } catch (const std::exception& error) {
      log_warning(std::string("old checkpoints stay for now: ") + error.what());
    }
    deleting_ = busy_ = false;
  });
  return true;
}

// Deletes while no save changes the folder: waits for an unfinished save, and blocks the next one.
void CheckpointCleaner::delete_exclusively(const std::function<void()>& deletes) {
  deleting_ = true;
  const std::scoped_lock lock(folder_);
  deletes();
}

void CheckpointCleaner::sweep_leftovers(const std::stop_token& stop) {
  delete_exclusively([&] {
    for (const std::filesystem::path& folder : checkpoint::sweep_leftovers(root_, stop))
      log_info("removed " + folder.string() + ", which an interrupted save left");
  });
}

void CheckpointCleaner::prune() {
  if (keep_latest_k_ == 0 || !prunes_) return;
  prune_is_due_ = !start([this](const std::stop_token& stop) { delete_replaced(stop); });
}

void CheckpointCleaner::delete_replaced(const std::stop_token& stop) {
  const checkpoint::PrunePlan plan =
      checkpoint::plan_prune(root_, static_cast<int>(keep_latest_k_), proven_, stop);
  for (const checkpoint::Skipped& damaged : plan.damaged)
    log_warning(damaged.folder.string() + " is damaged: " + damaged.why);
  if (!plan.deleted.empty()) delete_exclusively([&] { checkpoint::carry_out(root_, plan, stop); });
}

void CheckpointCleaner::stop() {
  prunes_ = false;
  thread_.request_stop();
}

void CheckpointCleaner::finish() {
  if (thread_.joinable()) thread_.join();
  if (!prune_is_due_) return;
  prune();
  if (thread_.joinable()) thread_.join();
}

}  // namespace rondo

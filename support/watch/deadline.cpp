#include "support/watch/deadline.h"

namespace rondo {

Deadline::Deadline(std::vector<Stage> stages) : stages_(std::move(stages)), thread_([this] { watch(); }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Deadline::watch() {
  for (const Stage& stage : stages_) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_until(lock, started_ + stage.after, [this] { return met_; })) return;
    }
    stage.action();
  }
}

}  // namespace rondo

#include "parallel/groups/collective_abort.h"

#include <utility>

namespace rondo {

void CollectiveAbort::start(const std::vector<std::function<void()>>& actions) {
  const std::lock_guard lock(mutex_);
  if (started_ || closed_) return;
  started_ = true;
  for (const auto& action : actions) threads_.emplace_back(action);
}

bool CollectiveAbort::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

void CollectiveAbort::wait() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    threads = std::exchange(threads_, {});
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo

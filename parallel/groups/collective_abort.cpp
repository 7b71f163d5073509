#include "parallel/groups/collective_abort.h"

#include <utility>

namespace rondo {

void Endings::begin(const std::vector<std::function<void()>>& actions) {
  const std::lock_guard lock(mutex_);
  if (begun_ || closed_) return;
  begun_ = true;
  for (const auto& action : actions) threads_.emplace_back(action);
}

bool Endings::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

void Endings::wait() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    threads = std::exchange(threads_, {});
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo

// Starts actions that may block on each other, such as the aborts of several process groups, and
// waits for them later. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo {

class CollectiveAbort {
 public:
  ~CollectiveAbort() { wait(); }

  // Runs each action in its own thread. Actions must not throw. Only the first call has an effect,
  // and no call after `wait` has one.
  void start(const std::vector<std::function<void()>>& actions);
  bool started() const;
  // Blocks until all started actions have returned. Later calls of `start` do nothing.
  void wait();

 private:
  mutable std::mutex mutex_;
  std::vector<std::thread> threads_;
  bool started_ = false, closed_ = false;
};

}  // namespace rondo

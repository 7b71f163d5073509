// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP request the run to end after the current step. A
// second SIGINT ends it at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace rondo {

void install_stop_signals();
// Returns the first signal that was received, if any.
std::optional<int> stop_requested();

// Watches for the first stop signal from a thread of its own.
class StopSignalWatch {
 public:
  // `action` is called with the signal, once, within a quarter of a second.
  explicit StopSignalWatch(std::function<void(int signal)> action);
  // Waits for an action that has started.
  ~StopSignalWatch();
  StopSignalWatch(const StopSignalWatch&) = delete;
  StopSignalWatch& operator=(const StopSignalWatch&) = delete;

 private:
  void watch();

  const std::function<void(int signal)> action_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;  // last: it reads the other members
};

}  // namespace rondo

#include "support/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <utility>

namespace rondo {
namespace {

std::atomic<int> requested{0};

extern "C" void on_stop(int signal) {
  int none = 0;
  const bool first = requested.compare_exchange_strong(none, signal);
  if (!first && signal == SIGINT) _exit(128 + SIGINT);
}

}  // namespace

void install_stop_signals() {
  static_assert(std::atomic<int>::is_always_lock_free, "the handler must be async-signal-safe");
  struct sigaction action {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;  // a collective in flight continues; the loop checks between steps
  for (int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) sigaction(signal, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

std::optional<int> stop_requested() {
  const int signal = requested.load();
  return signal == 0 ? std::nullopt : std::optional<int>(signal);
}

StopSignalWatch::StopSignalWatch(std::function<void(int signal)> action)
    : action_(std::move(action)), thread_([this] { watch(); }) {}

StopSignalWatch::~StopSignalWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void StopSignalWatch::watch() {
  constexpr std::chrono::milliseconds kLookEvery{200};
  while (!stop_requested()) {
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kLookEvery, [this] { return ended_; })) return;
  }
  action_(*stop_requested());
}

}  // namespace rondo

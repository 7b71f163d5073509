// Watches launched segments from a thread of its own: nothing else does once a device replays collectives
// without the host. Each segment counts up when it is done (ReplayDevice::count_up); a count that stands
// still for longer than the deadline is a hang, on this rank or on one that it waits for. Plain C++.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace rondo {

class ReplayWatch {
 public:
  struct Options {
    int rank = 0;
    // How long one segment may take; the first runs, which load kernels and connect ranks, may take longer.
    std::chrono::milliseconds deadline = std::chrono::seconds(60);
    std::chrono::milliseconds first_deadline = std::chrono::seconds(300);
    std::chrono::milliseconds interval = std::chrono::seconds(1);  // between two looks
  };
  // `counted`: segments done so far, readable from any thread without waiting. `on_hang` is called once, from
  // the watching thread, with what to tell the user; the default, end_hung, does not return.
  ReplayWatch(std::function<std::int64_t()> counted, Options options,
              std::function<void(const std::string&)> on_hang = &ReplayWatch::end_hung);
  ~ReplayWatch();
  ReplayWatch(const ReplayWatch&) = delete;
  ReplayWatch& operator=(const ReplayWatch&) = delete;

  // A segment was launched behind those before: "segment 2 of 5 of train_step".
  void launched(std::string what, bool first_run);

  // Logs the text and ends the process at once with ExitCode::peer: its other threads may hang in the device.
  [[noreturn]] static void end_hung(const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;
  struct Launch {
    std::string what;
    std::chrono::milliseconds deadline;
    Clock::time_point since;  // of the launch, or of the end of the one before it
  };
  void watch();
  // Drops what is done. Whether the oldest of the others hangs.
  bool hangs(std::int64_t counted, Clock::time_point now);

  const std::function<std::int64_t()> counted_;
  const Options options_;
  const std::function<void(const std::string&)> on_hang_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Launch> under_way_;
  std::int64_t done_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace rondo

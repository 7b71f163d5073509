// Ends a process whose step hangs: in a read, in a collective that another rank never joins, in a
// kernel, or in a recording that a device replays without the host. One thread watches the notes of
// progress.h and the device's count. A step pays for two locks only.
//
// Spans are watched: steps with their data, validations, agreements. Starts, saves and reports are
// not: a slow disk is no hang. Time without progress is measured in looks of the thread. So it does
// not count while the process is stopped or starved.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "support/watch/progress.h"

namespace rondo {

class StepWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // Time limits. Slow work gets more: five times the longest of the latest 16 spans of its kind.
  struct Patience {
    std::chrono::milliseconds limit = std::chrono::seconds(80);
    // Limit of the first two spans of a kind, which load kernels, record and connect ranks. Eager
    // spans have no limit among these two.
    std::chrono::milliseconds first_limit = std::chrono::seconds(300);
    std::chrono::milliseconds interval = std::chrono::seconds(1);  // between two looks
  };
  // `on_hang` is called once, from the watching thread, with a message for the user: "step 12 has
  // made no progress for 80.3 s, in a read of a.txt". The default, end_hung, does not return.
  explicit StepWatch(Patience patience, std::function<void(const std::string&)> on_hang = &end_hung);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  // Watched during its lifetime; one at a time.
  class Span {
   public:
    Span(StepWatch& watch, progress::Doing kind);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    StepWatch& watch_;
    const progress::Work work_;
  };

  // Registers the count of replayed segments that the device has completed. `counted` is called
  // from any thread during the lifetime of the watch, and does not wait.
  void follow(std::function<std::int64_t()> counted);
  // Reports the launch of a segment after all earlier ones: "segment 2 of 5 of train_step". With
  // `first_run` it has the first limit.
  void launched(std::string what, bool first_run);

  // Logs the text and ends the process at once with ExitCode::peer: its other threads may hang in
  // the device.
  [[noreturn]] static void end_hung(const std::string& what);

 private:
  struct Kind {
    std::int64_t spans = 0;
    std::array<Clock::duration, 16> latest{};
  };
  struct Launch {
    std::string what;
    bool first_run;
  };
  void begin(progress::Doing kind);
  void end();
  void watch();
  void look(Clock::duration passed);
  bool is_unknown() const;
  std::chrono::milliseconds limit() const;
  std::string describe() const;

  const Patience patience_;
  const std::function<void(const std::string&)> on_hang_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<std::int64_t()> count_ = [] { return 0; };
  std::array<Kind, 8> kinds_;  // by Doing
  std::optional<progress::Doing> watched_;
  Clock::time_point began_;
  std::deque<Launch> launches_;        // launched, not completed
  std::int64_t done_ = 0;              // completed launches
  std::int64_t notes_ = 0, seen_ = 0;  // notes and count at the previous look
  Clock::duration without_progress_{};
  bool stop_ = false;
  std::thread thread_;  // last: it reads the other members
};

}  // namespace rondo

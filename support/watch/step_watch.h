// Ends a process whose step stands still: a read that hangs, a collective that another rank never joins, a
// kernel that does not end, a recording that a device replays without the host. One thread looks at the notes
// of progress.h and at the device's count; nothing on the step's path but two locks a step.
//
// What is watched is what lies in a Span: steps with their data, validations, agreements. Starts, saves and
// reports are not: a slow disk is no hang. Standing still is measured in looks, so a process that was stopped
// or starved has not stood still meanwhile.
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
  // What is slow by nature has more: five times the longest of its kind's latest 16 spans.
  struct Patience {
    std::chrono::milliseconds limit = std::chrono::seconds(80);
    // Of the first two spans of a kind: they load kernels, record, connect ranks. None while they run
    // eagerly.
    std::chrono::milliseconds first_limit = std::chrono::seconds(300);
    std::chrono::milliseconds interval = std::chrono::seconds(1);  // between two looks
  };
  // `on_hang` is called once, from the watching thread, with what to tell the user: "step 12 has stood still
  // for 80.3 s, in a read of a.txt". The default, end_hung, does not return.
  explicit StepWatch(Patience patience, std::function<void(const std::string&)> on_hang = &end_hung);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  // Watched while it lives, one at a time.
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

  // Segments that a device replays count up when they are done. `counted`: so far, from any thread, without
  // waiting; it is called as long as the watch lives.
  void follow(std::function<std::int64_t()> counted);
  // A segment was launched behind those before: "segment 2 of 5 of train_step". `first_run`: it has the first
  // limit.
  void launched(std::string what, bool first_run);

  // Logs the text and ends the process at once with ExitCode::peer: its other threads may hang in the device.
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
  std::function<std::int64_t()> counted_ = [] { return 0; };
  std::array<Kind, 8> kinds_;  // by Doing
  std::optional<progress::Doing> watched_;
  Clock::time_point began_;
  std::deque<Launch> under_way_;       // launched, and not yet counted
  std::int64_t done_ = 0;              // of all that were launched
  std::int64_t notes_ = 0, seen_ = 0;  // notes and count at the latest look
  Clock::duration still_{};
  bool stop_ = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace rondo

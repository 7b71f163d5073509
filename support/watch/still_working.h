// Tells that a command without results for some seconds is at work.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace rondo {

class StillWorking {
 public:
  // `what`: "planning". Writes a line to stderr after two seconds. A terminal's line is updated
  // each second and removed by the destructor; elsewhere another line follows every ten seconds.
  // `json`: a program reads the output, so only a terminal gets lines.
  StillWorking(std::string what, bool json) {
    if (!json || isatty(STDERR_FILENO) != 0)
      thread_ = std::jthread([this, what = std::move(what)](std::stop_token stop) { tell(what, stop); });
  }

 private:
  void tell(const std::string& what, std::stop_token stop) {
    constexpr int kFirst_s = 2, kEvery_s = 10;
    const bool terminal = isatty(STDERR_FILENO) != 0;
    std::unique_lock lock(mutex_);
    int seconds = 0;
    while (!wake_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; }) &&
           !stop.stop_requested()) {
      if (++seconds < kFirst_s) continue;
      if (terminal)
        std::fprintf(stderr, "\r\033[K%s, %d s", what.c_str(), seconds);
      else if (seconds == kFirst_s || seconds % kEvery_s == 0)
        std::fprintf(stderr, "%s, %d s\n", what.c_str(), seconds);
    }
    if (terminal && seconds >= kFirst_s) std::fputs("\r\033[K", stderr);
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace rondo

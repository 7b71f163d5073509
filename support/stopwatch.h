// The steady clock, and elapsed time on it.
#pragma once

#include <chrono>

namespace rondo {

// Returns seconds of the steady clock.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Stopwatch {
 public:
  double seconds() const { return now_s() - start_s_; }
  double milliseconds() const { return 1e3 * seconds(); }

 private:
  double start_s_ = now_s();
};

}  // namespace rondo

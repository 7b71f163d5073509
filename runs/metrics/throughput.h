// Measures tokens per second and time per step since the last log line, and the time left.
//
// The caller passes the time (any monotonic seconds), so that tests control it. Time between
// `pause` and `resume` (validation, checkpoints) counts only for the ETA. A reading divides by the
// steps of its interval, so the first line, after one step, is accurate too. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace rondo {

class Throughput {
 public:
  struct Reading {
    double tokens_per_s = 0;
    double step_time_s = 0;
    double data_wait_fraction = 0;
  };

  // `now_s`: when the first step begins.
  explicit Throughput(double now_s) : interval_start_s_(now_s) {}

  // `tokens`: of one device in this step; `data_wait_s`: time spent waiting for the batch.
  void step_done(std::int64_t tokens, double data_wait_s, double now_s) {
    tokens_ += tokens;
    data_wait_s_ += data_wait_s;
    ++interval_steps_;
    ++total_steps_;
    if (total_steps_ == 1) first_step_end_s_ = now_s;
    last_step_end_s_ = now_s;
  }

  void pause(double now_s) { pause_start_s_ = now_s; }
  void resume(double now_s) {
    if (pause_start_s_) paused_s_ += now_s - *pause_start_s_;
    pause_start_s_.reset();
  }

  // Returns the throughput since the last reading and starts the next interval.
  Reading read(double now_s) {
    const double elapsed_s = std::max(now_s - interval_start_s_ - paused_s_, 1e-9);
    const double steps = static_cast<double>(std::max<std::int64_t>(interval_steps_, 1));
    const Reading reading{static_cast<double>(tokens_) / elapsed_s, elapsed_s / steps,
                          std::clamp(data_wait_s_ / elapsed_s, 0.0, 1.0)};
    interval_start_s_ = now_s;
    tokens_ = interval_steps_ = 0;
    data_wait_s_ = paused_s_ = 0;
    return reading;
  }

  // Returns the wall time for `steps_left` steps at the pace after the first step, which compiles
  // and warms up; nullopt before the second step is done.
  std::optional<double> eta_s(std::int64_t steps_left) const {
    if (total_steps_ < 2) return std::nullopt;
    const double pace_s = (last_step_end_s_ - first_step_end_s_) / static_cast<double>(total_steps_ - 1);
    return pace_s * static_cast<double>(steps_left);
  }

 private:
  double interval_start_s_;
  double paused_s_ = 0;
  double data_wait_s_ = 0;
  double first_step_end_s_ = 0;
  double last_step_end_s_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t interval_steps_ = 0;
  std::int64_t total_steps_ = 0;
  std::optional<double> pause_start_s_;
};

}  // namespace rondo

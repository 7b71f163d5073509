// Traces whole steps with LibTorch's profiler: the last profiler_active of every profile_freq
// steps. Each rank writes one file per window, RUN/profile_traces/iteration_N/rankR_trace.json (N:
// the last step of the window), in the format of Perfetto and chrome://tracing. The ranges around
// ops are those of module_ranges.h.
//
// Outside of windows nothing observes a step. Used by one thread. A process has one profile at a
// time, as in LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/schema/job_config.h"
#include "trainer/observe/module_ranges.h"

namespace rondo {

// The schedule of windows over steps from 1. A run that resumes within a window skips that window.
struct ProfileSchedule {
  std::int64_t freq = 10, active = 1, warmup = 3;

  std::int64_t window_end(std::int64_t step) const { return (step + freq - 1) / freq * freq; }
  std::int64_t first_active(std::int64_t step) const { return window_end(step) - active + 1; }
  bool warms_up(std::int64_t step) const {
    return step < first_active(step) && step >= first_active(step) - warmup;
  }
};

class Profile {
 public:
  // `folder`: of the traces.
  Profile(const Profiling& config, std::filesystem::path folder, int rank, int world_size);
  ~Profile();  // drops a window that is still open
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Returns whether the step is in a window or directly before one. Such a step must be finished
  // before the next begins.
  bool is_beside_window(std::int64_t step) const { return step + 1 >= schedule_.first_active(step); }
  void step_begins(std::int64_t step);
  // Writes the file if the step was the last of a window. Throws Error(resources) if it cannot
  // be written.
  void step_ends(std::int64_t step);
  // Writes the file of an unfinished window at the end of training.
  void finish(std::int64_t step);

 private:
  class Window;
  void save(std::int64_t step);

  ProfileSchedule schedule_;
  std::filesystem::path folder_;
  int rank_, world_size_;
  bool prepared_ = false;
  std::unique_ptr<Window> window_;
};

}  // namespace rondo

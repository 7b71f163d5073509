// Traces of whole steps by LibTorch's own profiler: every profile_freq steps the last profiler_active ones,
// as one file a rank, RUN/profile_traces/iteration_N/rankR_trace.json (N: the last step in it), in the format
// that Perfetto and chrome://tracing open. module_ranges.h says which ranges stand around the ops.
//
// Between windows nothing observes a step. One thread; a process profiles once at a time, since LibTorch
// does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/schema/job_config.h"
#include "trainer/observe/module_ranges.h"

namespace rondo {

// What to do at which step, from 1. A run that resumes in the middle of a window leaves that window out.
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
  // `folder`: that of the traces.
  Profile(const Profiling& config, std::filesystem::path folder, int rank, int world_size);
  ~Profile();  // drops a window that is still open
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Whether the step is in a window or right before one: then it has to be done before the next begins.
  bool is_beside_window(std::int64_t step) const { return step + 1 >= schedule_.first_active(step); }
  void step_begins(std::int64_t step);
  // Writes the file, where the step was the last of a window. Throws Error(resources) where it cannot be
  // written.
  void step_ends(std::int64_t step);
  // The same at the end of training, for a window that would have gone on.
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

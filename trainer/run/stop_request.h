// What asks a run to save or to end: a signal, a file in the run folder, the clock. Each rank looks at its
// own signals; rank 0 looks at the rest; all ranks then act on the most urgent request (agreement.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "config/schema/job_config.h"

namespace rondo {

// In ascending urgency. Behind `save` the run ends.
enum class StopRequest : std::int64_t {
  none = 0,
  save = 1,        // the file SAVE in the run folder: save and go on
  full_disk = 2,   // the run folder's disk has taken nothing for long (Report::trouble)
  data = 3,        // a rank cannot get its next batch
  time_limit = 4,  // job.time_limit_seconds, or the end of the Slurm job, less the margin
  stop_file = 5,   // the file STOP in the run folder
  signal = 6,      // SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT; the number comes with it
};

class StopRequests {
 public:
  // `process_start`: what job.time_limit_seconds counts from.
  StopRequests(const Job& job, std::chrono::steady_clock::time_point process_start);

  // The most urgent request of folder and clock now. The folder is looked at twice a second at most.
  StopRequest look();
  // Removes SAVE, so that it asks once. One that cannot be removed, such as a folder, asks no more.
  void forget_save();

 private:
  std::filesystem::path folder_;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::steady_clock::time_point looked_{};
  StopRequest in_folder_ = StopRequest::none;
  bool save_stays_ = false;
};

// Throws Error(do_not_requeue) when the run folder holds STOP already: somebody wanted this run to stay
// ended.
void refuse_stopped(const Job& job);

// When the run must have ended: the earlier of process_start + time_limit_seconds and (only where that is 0)
// SLURM_JOB_END_TIME, less the margin; the far future where there is neither. A SLURM_JOB_END_TIME that is no
// time of a job counts as none, with a warning.
std::chrono::steady_clock::time_point deadline_of(const Job& job,
                                                  std::chrono::steady_clock::time_point process_start);

// "signal 15 (SIGTERM)", "the file STOP", "the time limit"
std::string describe(StopRequest request, int signal);

}  // namespace rondo

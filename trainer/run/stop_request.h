// Checks for requests to save or to end a run: a signal, a file in the run folder, the clock. Each
// rank checks its own signals; rank 0 checks the rest. All ranks then act on the most urgent
// request (agreement.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "config/schema/job_config.h"

namespace rondo {

// In ascending urgency. Requests after `save` end the run.
enum class StopRequest : std::int64_t {
  none = 0,
  save = 1,        // the file SAVE in the run folder: save and continue
  full_disk = 2,   // writes to the run folder's disk have failed for long (Report::trouble)
  data = 3,        // a rank cannot get its next batch
  time_limit = 4,  // job.time_limit_seconds, or the end of the Slurm job, less the margin
  stop_file = 5,   // the file STOP in the run folder
  signal = 6,      // SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT; the number comes with it
};

class StopRequests {
 public:
  // `process_start`: the time from which job.time_limit_seconds counts.
  StopRequests(const Job& job, std::chrono::steady_clock::time_point process_start);

  // Returns the most urgent request of folder and clock. Checks the folder at most twice a second.
  StopRequest look();
  // Removes SAVE, so that it requests one save. A SAVE that cannot be removed, such as a folder,
  // requests no more.
  void forget_save();

 private:
  std::filesystem::path folder_;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::steady_clock::time_point looked_{};
  StopRequest in_folder_ = StopRequest::none;
  bool save_stays_ = false;
};

// Throws Error(do_not_requeue) if the run folder has a STOP file.
void refuse_stopped(const Job& job);

// Returns the time by which the run must end: process_start + time_limit_seconds or, if that is 0,
// the end of the Slurm job, less the margin; the far future without either. The job ends at
// SLURM_JOB_END_TIME or, if that is not set or in the past, when squeue says. A job that ends
// within the margin is left half of its time. Logs the end, or that none is known.
std::chrono::steady_clock::time_point deadline_of(const Job& job,
                                                  std::chrono::steady_clock::time_point process_start);

// Returns "signal 15 (SIGTERM)", "the file STOP in the run folder", "the time limit".
std::string describe(StopRequest request, int signal);

}  // namespace rondo

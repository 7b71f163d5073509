// Checks files at most twice a second, since steps can be short and the folder on a network. A
// request is remembered until forget_save, so that it is not lost between two checks. The most
// urgent request is the largest number, so an all-reduce of maxima can agree on it. The deadline
// uses the steady clock, since the system clock may be set; the time of day from Slurm is
// converted once.
#include "trainer/run/stop_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>

#include "support/error.h"
#include "support/log.h"
#include "support/printable.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(500);
constexpr std::int64_t kLongestJob_s = std::int64_t{10} * 365 * 24 * 3600;

bool file_exists(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

// Returns the end of the Slurm job: seconds since the epoch, set for every task of a job with
// a limit.
std::optional<Clock::time_point> end_of_slurm_job() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return std::nullopt;
  const std::int64_t now = std::time(nullptr);
  if (const auto end = number_in<std::int64_t>(text, 0, now + kLongestJob_s))
    return Clock::now() + std::chrono::seconds(*end - now);
  log_warning(
      fmt::format("SLURM_JOB_END_TIME = \"{}\" is not within the next ten years, in seconds since 1970: "
                  "the end of the Slurm job is ignored; set job.time_limit_seconds instead",
                  printable(text, 40)));
  return std::nullopt;
}

}  // namespace

Clock::time_point deadline_of(const Job& job, Clock::time_point process_start) {
  const auto margin = std::chrono::seconds(job.time_margin_seconds);
  if (job.time_limit_seconds > 0)
    return process_start + std::chrono::seconds(job.time_limit_seconds) - margin;
  if (const auto end = end_of_slurm_job()) return *end - margin;
  return Clock::time_point::max();
}

void refuse_stopped(const Job& job) {
  const fs::path file = fs::path(job.dump_folder) / "STOP";
  if (file_exists(file))
    throw Error(ExitCode::do_not_requeue,
                file.string() + " keeps this run stopped; delete that file to continue");
}

StopRequests::StopRequests(const Job& job, Clock::time_point process_start)
    : folder_(job.dump_folder), deadline_(deadline_of(job, process_start)) {}

StopRequest StopRequests::look() {
  const Clock::time_point now = Clock::now();
  if (in_folder_ == StopRequest::none && now - looked_ >= kLookEvery) {
    looked_ = now;
    in_folder_ = file_exists(folder_ / "STOP")                   ? StopRequest::stop_file
                 : !save_stays_ && file_exists(folder_ / "SAVE") ? StopRequest::save
                                                                 : StopRequest::none;
  }
  const StopRequest clock = now >= deadline_ ? StopRequest::time_limit : StopRequest::none;
  return std::max(in_folder_, clock);
}

void StopRequests::forget_save() {
  if (in_folder_ == StopRequest::save) in_folder_ = StopRequest::none;
  std::error_code error;
  fs::remove(folder_ / "SAVE", error);
  save_stays_ = error.value() != 0;
  if (save_stays_)
    log_warning(fmt::format("{} cannot be removed ({}), so it requests no other save",
                            (folder_ / "SAVE").string(), error.message()));
}

std::string describe(StopRequest request, int signal) {
  if (request == StopRequest::signal)
    return "signal " + std::to_string(signal) + " (SIG" + sigabbrev_np(signal) + ")";
  if (request == StopRequest::stop_file) return "the file STOP in the run folder";
  if (request == StopRequest::time_limit) return "the time limit";
  if (request == StopRequest::data) return "the data";
  if (request == StopRequest::full_disk) return "the disk of the run folder";
  return request == StopRequest::save ? "the file SAVE in the run folder" : "nothing";
}

}  // namespace rondo

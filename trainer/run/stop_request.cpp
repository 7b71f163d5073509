// Files are looked for twice a second at most, since steps can be short and the folder on a network. What was
// found is remembered until it is forgotten, so that a request is not lost between two looks. The most urgent
// request is the largest number, which one all-reduce of maxima can agree on. The deadline is of the system
// clock, because Slurm gives a time of day.
#include "trainer/run/stop_request.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "support/error.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using SystemTime = std::chrono::system_clock::time_point;

constexpr auto kLookEvery = std::chrono::milliseconds(500);

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

// Seconds since the epoch; Slurm sets it for every task of a job that has a time limit.
std::optional<std::int64_t> end_of_slurm_job() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return std::nullopt;
  std::int64_t seconds = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, seconds);
  return error == std::errc() && stop == end && seconds > 0 ? std::optional(seconds) : std::nullopt;
}

}  // namespace

SystemTime deadline_of(const Job& job, SystemTime process_start) {
  const auto margin = std::chrono::seconds(job.time_margin_seconds);
  if (job.time_limit_seconds > 0)
    return process_start + std::chrono::seconds(job.time_limit_seconds) - margin;
  if (const auto end = end_of_slurm_job()) return SystemTime(std::chrono::seconds(*end)) - margin;
  return SystemTime::max();
}

void refuse_stopped(const Job& job) {
  const fs::path file = fs::path(job.dump_folder) / "STOP";
  if (is_there(file))
    throw Error(ExitCode::do_not_requeue,
                file.string() + " asks this run to stay ended; delete that file to go on");
}

StopRequests::StopRequests(const Job& job, SystemTime process_start)
    : folder_(job.dump_folder), deadline_(deadline_of(job, process_start)) {}

StopRequest StopRequests::look() {
  const auto now = std::chrono::steady_clock::now();
  if (in_folder_ == StopRequest::none && now - looked_ >= kLookEvery) {
    looked_ = now;
    in_folder_ = is_there(folder_ / "STOP")   ? StopRequest::stop_file
                 : is_there(folder_ / "SAVE") ? StopRequest::save
                                              : StopRequest::none;
  }
  const StopRequest clock =
      std::chrono::system_clock::now() >= deadline_ ? StopRequest::time_limit : StopRequest::none;
  return std::max(in_folder_, clock);
}

void StopRequests::forget_save() {
  if (in_folder_ == StopRequest::save) in_folder_ = StopRequest::none;
  std::error_code ignored;
  fs::remove(folder_ / "SAVE", ignored);
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

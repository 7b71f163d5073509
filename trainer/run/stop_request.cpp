// Checks files at most twice a second, since steps can be short and the folder on a network. A
// request is remembered until forget_save, so that it is not lost between two checks. The most
// urgent request is the largest number, so an all-reduce of maxima can agree on it. The deadline
// uses the steady clock, since the system clock may be set; the time of day from Slurm is
// converted once.
#include "trainer/run/stop_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>

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
constexpr int kSqueuePatience_s = 5;

bool file_exists(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

// Seconds since 1970, or what is known instead.
struct JobEnd {
  std::optional<std::int64_t> at_s;
  std::string problem;
};

// Returns the number in `text` if a running job can end then.
std::optional<std::int64_t> plausible_end(std::string_view text) {
  const std::int64_t now = std::time(nullptr);
  return number_in<std::int64_t>(text, now + 1, now + kLongestJob_s);
}

// Asks the scheduler, since Slurm sets SLURM_JOB_END_TIME from version 23.02 on.
JobEnd end_in_squeue(std::int64_t job) {
  const std::string command =
      fmt::format("SLURM_TIME_FORMAT=%s timeout -k 1 {} squeue -h -j {} -o %e 2>&1", kSqueuePatience_s, job);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), &pclose);
  std::array<char, 200> line{};
  if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe.get()) == nullptr)
    return {.at_s = {}, .problem = "squeue gives no answer"};
  std::string text = line.data();
  text.erase(text.find_last_not_of(" \n") + 1);
  if (const auto end = plausible_end(text)) return {.at_s = end, .problem = ""};
  if (text == "NONE") return {.at_s = {}, .problem = "it has no time limit"};
  return {.at_s = {}, .problem = fmt::format("squeue says \"{}\"", printable(text, 100))};
}

// Returns the end of the Slurm job of this process; nullopt outside of a job and without a known
// end.
std::optional<Clock::time_point> end_of_slurm_job() {
  JobEnd end;
  if (const char* text = std::getenv("SLURM_JOB_END_TIME")) {
    end.at_s = plausible_end(text);
    if (!end.at_s)
      log_warning(
          fmt::format("SLURM_JOB_END_TIME = \"{}\" is not within the next ten years, in seconds since 1970: "
                      "it is ignored",
                      printable(text, 40)));
  }
  if (const char* text = std::getenv("SLURM_JOB_ID"); text != nullptr && !end.at_s) {
    const auto job = number_in<std::int64_t>(text, 0, INT64_MAX);
    end = job ? end_in_squeue(*job) : JobEnd{{}, "SLURM_JOB_ID is no number"};
    if (!end.at_s)
      log_info(
          fmt::format("time limit: no end of Slurm job {} is known ({}); to save before one, set "
                      "job.time_limit_seconds",
                      printable(text, 40), end.problem));
  }
  if (!end.at_s) return std::nullopt;
  return Clock::now() + std::chrono::seconds(*end.at_s - std::time(nullptr));
}

}  // namespace

Clock::time_point deadline_of(const Job& job, Clock::time_point process_start) {
  const auto margin = std::chrono::seconds(job.time_margin_seconds);
  if (job.time_limit_seconds > 0)
    return process_start + std::chrono::seconds(job.time_limit_seconds) - margin;
  const auto end = end_of_slurm_job();
  if (!end) return Clock::time_point::max();
  const auto left = std::chrono::round<std::chrono::seconds>(*end - Clock::now());
  if (left > margin) {
    log_info(fmt::format("time limit: the Slurm job ends in {} s; the run saves and ends {} s before",
                         left.count(), margin.count()));
    return *end - margin;
  }
  log_warning(fmt::format(
      "the Slurm job ends in {} s, within job.time_margin_seconds = {}: the run saves and ends {} s "
      "before; give the job more time, or lower the margin",
      left.count(), margin.count(), left.count() / 2));
  return *end - left / 2;
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

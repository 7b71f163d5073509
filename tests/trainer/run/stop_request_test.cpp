#include "trainer/run/stop_request.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <thread>

#include "tests/datasets/temp_folder.h"

namespace rondo {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Returns the remaining time of a job in seconds; nullopt without a limit.
std::optional<std::int64_t> left_s(const Job& job, const std::string& slurm_end) {
  setenv("SLURM_JOB_END_TIME", slurm_end.c_str(), 1);
  const Clock::time_point end = deadline_of(job, Clock::now() - seconds(10));
  unsetenv("SLURM_JOB_END_TIME");
  if (end == Clock::time_point::max()) return std::nullopt;
  return std::chrono::round<seconds>(end - Clock::now()).count();
}

std::string in(std::int64_t later_s) { return std::to_string(std::time(nullptr) + later_s); }

TEST_CASE("a time limit counts from the start of the process, and the end of a Slurm job is a time of day") {
  Job job;
  job.time_margin_seconds = 100;
  CHECK(std::abs(*left_s(job, in(1000)) - 900) <= 1);
  job.time_limit_seconds = 500;
  CHECK(left_s(job, in(1000)) == 390);
}

TEST_CASE("an implausible end of a Slurm job is ignored") {
  unsetenv("SLURM_JOB_ID");
  for (const char* end : {"", "x", "-1", "1e9", "9223372037", "9223372036854775807", "4294967294"}) {
    INFO(end);
    CHECK(left_s(Job(), end) == std::nullopt);
  }
}

TEST_CASE("an end of a Slurm job that is over is ignored") {
  unsetenv("SLURM_JOB_ID");
  CHECK(left_s(Job(), "0") == std::nullopt);
  CHECK(left_s(Job(), in(-5000)) == std::nullopt);
}

TEST_CASE("a Slurm job that ends within the margin is left half of its time") {
  Job job;
  job.time_margin_seconds = 100;
  CHECK(std::abs(*left_s(job, in(60)) - 30) <= 1);
}

TEST_CASE("the end of a Slurm job is asked of squeue where the environment does not say it") {
  const TempFolder folder;
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder.path() + ":" + path).c_str(), 1);
  setenv("SLURM_JOB_ID", "7", 1);
  const auto answers = [&](const std::string& script) {
    folder.write("squeue", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder.path("squeue"), std::filesystem::perms::owner_all);
  };
  Job job;
  job.time_margin_seconds = 100;
  answers("[ \"$SLURM_TIME_FORMAT $*\" = '%s -h -j 7 -o %e' ] && echo " + in(1000));
  CHECK(std::abs(*left_s(job, "0") - 900) <= 1);
  CHECK(std::abs(*left_s(job, in(500)) - 400) <= 1);
  for (const char* script :
       {"echo NONE", "echo slurm_load_jobs error: Invalid job id >&2; exit 1", "exit 1"}) {
    INFO(script);
    answers(script);
    CHECK(left_s(job, "0") == std::nullopt);
  }
  setenv("PATH", path.c_str(), 1);
  unsetenv("SLURM_JOB_ID");
}

TEST_CASE(
    "a SAVE that cannot be removed requests one save, and a file requests one each time it is created") {
  const TempFolder folder;
  Job job;
  job.dump_folder = folder.path();
  const auto requests_save = [](StopRequests& requests) {
    std::this_thread::sleep_for(std::chrono::milliseconds(510));  // the folder is checked twice a second
    const bool save = requests.look() == StopRequest::save;
    if (save) requests.forget_save();
    return save;
  };
  StopRequests requests(job, Clock::now());
  folder.write("SAVE", "");
  CHECK(requests_save(requests));
  CHECK_FALSE(requests_save(requests));
  folder.write("SAVE/full", "");
  CHECK(requests_save(requests));
  CHECK_FALSE(requests_save(requests));
}

}  // namespace
}  // namespace rondo

// Tests whole runs whose disk fails during saves: training continues or ends with the right code,
// and the last valid checkpoint remains valid.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "checkpoint/catalog.h"
#include "checkpoint/save.h"
#include "tests/run/processes.h"
#include "tests/run/runs.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

Words saving(int steps) {
  return {"--checkpoint.enable=true", "--checkpoint.interval=4", "--lr_scheduler.total_steps=20",
          fmt::format("--training.steps={}", steps)};
}

using Disturbance = std::vector<std::pair<std::string, std::string>>;

// A run of 2 ranks with disturbed file system calls below `under`.
launch::Finished disturbed(const Place& place, const Words& flags, Disturbance disturbance,
                           const std::string& calls = "mkdir,fallocate,pwrite,fsync,rename",
                           const std::string& under = "run/checkpoint") {
  const Words words = place.launch(2, "run", flags);
  disturbance.emplace_back("LD_PRELOAD", RONDO_BINARY_DIR "/tests/libfailing_files.so");
  disturbance.emplace_back("FAILING_FILES_CALLS", calls);
  disturbance.emplace_back("FAILING_FILES_UNDER", (place / under).string());
  return launch::Launch(without_launch(words), disturbance).wait();
}

void check_all_committed_are_valid(const Place& place) {
  for (const checkpoint::Entry& entry : checkpoint::list(place / "run/checkpoint"))
    if (entry.state != checkpoint::State::temp)
      CHECK(checkpoint::verify(entry.folder, checkpoint::Depth::full).problems == std::vector<std::string>{});
}

TEST_CASE("a call that fails in one save costs that checkpoint alone, and training continues") {
  const std::string rank = GENERATE("0", "1");
  const std::string at = GENERATE("1", "2", "3");
  const std::string action = GENERATE("ENOSPC", "EACCES");
  INFO("rank " << rank << ", call " << at << ", " << action);
  const Place place;
  fs::create_directories(place / "run/checkpoint");
  const launch::Finished end =
      disturbed(place, saving(11),
                {{"FAILING_FILES_RANK", rank}, {"FAILING_FILES_AT", at}, {"FAILING_FILES_ACTION", action}});
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  check_all_committed_are_valid(place);
  CHECK_FALSE(fs::exists(place / "run/checkpoint/step-4"));
  CHECK(fs::exists(place / "run/checkpoint/step-8/COMMITTED"));
  CHECK(fs::exists(place / "run/checkpoint/step-11/COMMITTED"));
  CHECK_THAT(end.out + end.err, ContainsSubstring("step 4 was not saved: "));
}

TEST_CASE("saves that always fail stop the run with 9, and the last valid checkpoint is unchanged") {
  const Place place;
  place.play(2, "run", saving(4));
  const launch::Finished end = disturbed(
      place, saving(20),
      {{"FAILING_FILES_AT", "1"}, {"FAILING_FILES_TIMES", "1000000"}, {"FAILING_FILES_ACTION", "ENOSPC"}});
  INFO(end.out << end.err);
  CHECK(end.code == 9);
  CHECK_THAT(end.out + end.err,
             ContainsSubstring("3 saves in a row failed (checkpoint.max_failed_saves), the last one: "));
  check_all_committed_are_valid(place);
  const ProgramResult resumed = place.play(2, "run", saving(20));
  CHECK_THAT(resumed.output, ContainsSubstring("step-4: 4 of 20 steps are done"));
  place.play(2, "straight", saving(20));
  CHECK(place.compare("run", "straight").exit_code == 0);
}

TEST_CASE("an export that takes longer than the timeout of a collective ends well") {
  const Place place;
  const launch::Finished end = disturbed(
      place, saving(4) + Words{"--checkpoint.last_save_in_hf=true", "--comm.train_timeout_seconds=2"},
      {{"FAILING_FILES_AT", "1"}, {"FAILING_FILES_ACTION", "slow"}}, "mkdir", "run/checkpoint/.step-4-hf");
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK(fs::exists(place / "run/checkpoint/step-4-hf/config.json"));
}

TEST_CASE("a rank that reads its checkpoint for longer than the timeout of a collective is waited for") {
  const Place place;
  place.play(2, "run", saving(4));
  const launch::Finished end = disturbed(place, saving(8) + Words{"--comm.init_timeout_seconds=6"},
                                         {{"FAILING_FILES_RANK", "1"},
                                          {"FAILING_FILES_AT", "1"},
                                          {"FAILING_FILES_TIMES", "2"},
                                          {"FAILING_FILES_ACTION", "slow"}},
                                         "pread", "run/checkpoint/step-4/rank-");
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring("step-4: 4 of 8 steps are done"));
}

TEST_CASE("a failing file server is no reason to resume from an older checkpoint") {
  const Place place;
  place.play(2, "run", saving(8));
  const auto fails = [](const char* times) {
    return Disturbance{
        {"FAILING_FILES_AT", "1"}, {"FAILING_FILES_TIMES", times}, {"FAILING_FILES_ACTION", "EIO"}};
  };
  launch::Finished end = disturbed(place, saving(12), fails("1000000"), "lstat", "run/checkpoint/step-8");
  INFO(end.out << end.err);
  CHECK(end.code == 9);
  CHECK_THAT(end.out + end.err,
             ContainsSubstring("cannot look at ") && ContainsSubstring("Input/output error"));
  end = disturbed(place, saving(12), fails("2"), "lstat", "run/checkpoint/step-8");
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring("step-8: 8 of 12 steps are done"));
}

TEST_CASE("leftovers of a killed save that cannot be removed cost a warning") {
  const Place place;
  place.play(2, "run", saving(4));
  write_text(place / "run/checkpoint/step-3.tmp-run-1/rank-00000.bin", "half");
  const launch::Finished end = disturbed(
      place, saving(8),
      {{"FAILING_FILES_AT", "1"}, {"FAILING_FILES_TIMES", "100"}, {"FAILING_FILES_ACTION", "EACCES"}},
      "unlink", "run/checkpoint/step-3");
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring("old checkpoints stay for now: cannot remove "));
  CHECK(fs::exists(place / "run/checkpoint/step-8/COMMITTED"));
}

TEST_CASE("a save without space deletes old checkpoints, so that the next save has space") {
  const Place place;
  place.play(2, "run", saving(12) + Words{"--checkpoint.keep_latest_k=0"});
  const launch::Finished end = disturbed(
      place, saving(32) + Words{"--checkpoint.keep_latest_k=2", "--checkpoint.max_failed_saves=100"},
      {{"FAILING_FILES_AT", "1"}, {"FAILING_FILES_TIMES", "1000000"}, {"FAILING_FILES_ACTION", "ENOSPC"}},
      "fallocate,pwrite");
  INFO(end.out << end.err);
  CHECK(end.code == 9);
  CHECK_FALSE(fs::exists(place / "run/checkpoint/step-4"));
  CHECK(fs::exists(place / "run/checkpoint/step-8/COMMITTED"));
}

TEST_CASE("a folder of checkpoints that vanishes or is read-only costs saves, not the run") {
  const std::string action = GENERATE("vanish", "EROFS");
  INFO(action);
  const Place place;
  place.play(2, "run", saving(4));
  const launch::Finished end =
      disturbed(place, saving(10),
                {{"FAILING_FILES_RANK", "0"}, {"FAILING_FILES_AT", "3"}, {"FAILING_FILES_ACTION", action}});
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring("step 8 was not saved: "));
  check_all_committed_are_valid(place);
}

TEST_CASE("metrics that cannot be written wait, and the run continues") {
  const std::string action = GENERATE("ENOSPC", "EIO");
  const Place place;
  const launch::Finished end =
      disturbed(place, saving(11),
                {{"FAILING_FILES_AT", "3"}, {"FAILING_FILES_TIMES", "5"}, {"FAILING_FILES_ACTION", action}},
                "write", "run/metrics.jsonl");
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK(place.metrics("run").size() == 11);
  CHECK_THAT(end.out + end.err,
             ContainsSubstring("the run continues and retries") &&
                 ContainsSubstring("metrics.jsonl can be written again; nothing was lost"));
}

TEST_CASE("a page for Prometheus that cannot be written is reported once, and the run continues") {
  const Place place;
  const launch::Finished end = disturbed(
      place,
      Words{"--training.steps=6", "--metrics.log_freq=1",
            "--metrics.prometheus_file=" + (place / "rondo.prom").string()},
      {{"FAILING_FILES_AT", "5"}, {"FAILING_FILES_TIMES", "100"}, {"FAILING_FILES_ACTION", "ENOSPC"}},
      "open,rename,pwrite", ".rondo.prom");
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  const std::string warning = "metrics.prometheus_file is not up to date: ";
  CHECK_THAT(end.out + end.err, ContainsSubstring(warning));
  CHECK((end.out + end.err).find(warning) == (end.out + end.err).rfind(warning));
}

TEST_CASE("a disk that fails to store metrics for long ends the run with 9, and the step is saved") {
  const Place place;
  const launch::Finished end = disturbed(
      place, saving(1'000'000) + Words{"--checkpoint.interval=1000000", "--debug.hash_every=0"},
      {{"FAILING_FILES_AT", "3"}, {"FAILING_FILES_TIMES", "1000000"}, {"FAILING_FILES_ACTION", "ENOSPC"}},
      "write", "run/metrics.jsonl");
  INFO(end.out << end.err);
  CHECK(end.code == 9);
  const std::string reason = place.exit_record("run")["reason"];
  CHECK_THAT(reason, ContainsSubstring("stopped by the disk of the run folder after step ") &&
                         ContainsSubstring("metrics.jsonl: No space left on device") &&
                         ContainsSubstring("; it is saved, and the same command resumes from there"));
  CHECK(checkpoint::newest_valid(place / "run/checkpoint", checkpoint::Depth::full).newest.has_value());
}

TEST_CASE("a folder of checkpoints that another run writes is refused before the first step") {
  const Place place;
  REQUIRE(rondo(place.launch(1, "run", saving(4))).exit_code == 0);
  const std::string before = text_of(place / "run/metrics.jsonl");
  fs::rename(place / "run/checkpoint", place / "renamed");
  fs::create_directory_symlink(place / "renamed", place / "run/checkpoint");
  const FolderLock other = checkpoint::lock_root(place / "renamed");  // another run, by another path
  const ProgramResult refused = rondo(place.launch(1, "run", saving(8)));
  INFO(refused.output);
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.output, ContainsSubstring("is being written by another run that is still alive"));
  CHECK(text_of(place / "run/metrics.jsonl") == before);
}

}  // namespace
}  // namespace rondo

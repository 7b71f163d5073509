// Whole runs whose disk fails them while they save: training goes on or ends with the right code, and the
// last good checkpoint stays good.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/processes.h"
#include "tests/run/runs.h"
#include "trainer/checkpoint/catalog.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

Words saving(int steps) {
  return {"--checkpoint.enable=true", "--checkpoint.interval=4", "--checkpoint.last_save_model_only=false",
          "--lr_scheduler.total_steps=20", fmt::format("--training.steps={}", steps)};
}

// A run of 2 ranks with some of its file system calls below `checkpoint` disturbed.
launch::Finished disturbed(const Place& place, const Words& flags,
                           std::vector<std::pair<std::string, std::string>> disturbance) {
  const Words words = place.launch(2, "run", flags);
  disturbance.emplace_back("LD_PRELOAD", RONDO_BINARY_DIR "/tests/libfailing_files.so");
  disturbance.emplace_back("FAILING_FILES_CALLS", "mkdir,fallocate,pwrite,fsync,rename");
  disturbance.emplace_back("FAILING_FILES_UNDER", (place / "run/checkpoint").string());
  return launch::Launch(Words(words.begin() + 1, words.end()), disturbance).wait();
}

void check_all_committed_are_valid(const Place& place) {
  for (const checkpoint::Entry& entry : checkpoint::list(place / "run/checkpoint"))
    if (entry.state != checkpoint::State::temp)
      CHECK(checkpoint::verify(entry.folder, checkpoint::Depth::full).problems == std::vector<std::string>{});
}

TEST_CASE("a call that fails in one save costs that checkpoint alone, and training goes on") {
  const std::string rank = GENERATE("0", "1");
  const std::string at = GENERATE("1", "2", "3");
  const std::string action = GENERATE("ENOSPC", "EACCES");
  INFO("rank " << rank << ", call " << at << ", " << action);
  const Place place;
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

TEST_CASE("saves that fail without end stop the run with 9, and the last good checkpoint is as it was") {
  const Place place;
  REQUIRE(rondo(place.launch(2, "run", saving(4))).exit_code == 0);
  const launch::Finished end = disturbed(
      place, saving(20),
      {{"FAILING_FILES_AT", "1"}, {"FAILING_FILES_TIMES", "1000000"}, {"FAILING_FILES_ACTION", "ENOSPC"}});
  INFO(end.out << end.err);
  CHECK(end.code == 9);
  CHECK_THAT(end.out + end.err,
             ContainsSubstring("3 saves in a row failed (checkpoint.max_failed_saves), the last one: "));
  check_all_committed_are_valid(place);
  const ProgramResult resumed = rondo(place.launch(2, "run", saving(20)));
  INFO(resumed.output);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.output, ContainsSubstring("step-4: 4 of 20 steps are done"));
  REQUIRE(rondo(place.launch(2, "straight", saving(20))).exit_code == 0);
  CHECK(place.compare("run", "straight").exit_code == 0);
}

TEST_CASE("a folder of checkpoints that vanishes or may not be written costs saves, not the run") {
  const std::string action = GENERATE("vanish", "EROFS");
  INFO(action);
  const Place place;
  REQUIRE(rondo(place.launch(2, "run", saving(4))).exit_code == 0);
  const launch::Finished end =
      disturbed(place, saving(10),
                {{"FAILING_FILES_RANK", "0"}, {"FAILING_FILES_AT", "3"}, {"FAILING_FILES_ACTION", action}});
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring("step 8 was not saved: "));
  check_all_committed_are_valid(place);
}

}  // namespace
}  // namespace rondo

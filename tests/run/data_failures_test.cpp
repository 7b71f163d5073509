// Tests whole runs whose data fails during training.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using launch::holds_soon;
using launch::Launch;
namespace fs = std::filesystem;

// A run of 2 ranks. On rank 1 the reads of the corpus from number `at` on fail `times` times
// with EIO.
Launch failing(const Place& place, const Words& flags, int at, int times) {
  return Launch(without_launch(place.launch(2, "run", kSavesAtTheEnd + flags)),
                {{"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libfailing_files.so"},
                 {"FAILING_FILES_CALLS", "pread"},
                 {"FAILING_FILES_UNDER", (place / "corpus").string()},
                 {"FAILING_FILES_RANK", "1"},
                 {"FAILING_FILES_AT", std::to_string(at)},
                 {"FAILING_FILES_TIMES", std::to_string(times)},
                 {"FAILING_FILES_ACTION", "EIO"}});
}

std::size_t steps_of(const Place& place) { return lines_of(place / "run/metrics.jsonl").size(); }

TEST_CASE("a data read that fails twice is tried again, and the run has the bits of an undisturbed one") {
  const Place place;
  const launch::Finished end = failing(place, steps(20), 256, 2).wait();
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring(": cannot read byte ") &&
                                    ContainsSubstring("Input/output error; try 2 failed, retrying in 0.2"));
  place.play(2, "straight", kSavesAtTheEnd + steps(20));
  const ProgramResult compared = place.compare("run", "straight");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

TEST_CASE("data that cannot be read for long ends all ranks with 9, and the step is saved") {
  const Place place;
  const launch::Finished end =
      failing(place, {"--training.steps=1000000", "--comm.train_timeout_seconds=6"}, 256, 1'000'000).wait();
  INFO(end.out << end.err);
  CHECK(end.code == 9);
  const std::size_t step = steps_of(place);
  const nlohmann::json record = place.exit_record("run");
  CHECK(record["rank"] == 1);
  CHECK_THAT(record["reason"],
             ContainsSubstring(fmt::format("stopped by the data after step {}: ", step)) &&
                 ContainsSubstring("cannot read byte ") &&
                 ContainsSubstring("Input/output error; check the disk") &&
                 ContainsSubstring("; it is saved, and the same command resumes from there"));
  const Words more = kSavesAtTheEnd + steps(static_cast<int>(step) + 3);
  const ProgramResult resumed = place.play(2, "run", more);
  CHECK_THAT(resumed.output, ContainsSubstring(fmt::format("step-{}: {} of ", step, step)));
  place.play(2, "straight", more);
  CHECK(place.compare("run", "straight").exit_code == 0);
}

TEST_CASE("a stop signal is handled while a data read is retried") {
  const Place place;
  Launch run = failing(place, {"--training.steps=1000000"}, 256, 1'000'000);
  REQUIRE(holds_soon([&] { return run.err().find("retrying") != std::string::npos; }));
  run.signal(SIGTERM);
  const launch::Finished end = run.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 75);
  CHECK_THAT(end.out + end.err,
             ContainsSubstring(fmt::format("(SIGTERM) after step {}; it is saved", steps_of(place))));
}

TEST_CASE(
    "a token file that another process cuts short ends the run with 4 and its name, and the step is saved") {
  const Place place;
  const std::string tokens = (place / "corpus.tokens").string();
  must_end_well({"data", "tokenize", "--tokenizer", "bytes", "--input", (place / "corpus").string(),
                 "--output", tokens});
  const Words words = place.launch(
      2, "run", kSavesAtTheEnd + Words{"--training.steps=1000000", "--training.dataset_path=" + tokens});
  Launch run(without_launch(words), {});
  REQUIRE(holds_soon([&] { return steps_of(place) >= 3; }));
  fs::resize_file(tokens, 4096);
  const launch::Finished end = run.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 4);
  CHECK_THAT(place.exit_record("run")["reason"],
             ContainsSubstring(tokens + ": changed while in use: it had ") &&
                 ContainsSubstring("bytes and now has 4096; the read was at byte ") &&
                 ContainsSubstring("; it is saved"));
}

}  // namespace
}  // namespace rondo

// Runs of two ranks that are disturbed from outside: a rank is killed or stopped in each phase, and
// the clock of the machine is set.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// A file system call by which a rank is known to be in a phase.
struct Phase {
  const char* name;
  const char* rank;
  const char* under;  // in the place of the test
  const char* calls;
  const char* at;
};
constexpr Phase kPhases[] = {
    {"start-up", "1", "corpus", "open", "1"},
    {"reading weights", "1", "base/checkpoint/step-2/rank-", "pread", "1"},
    {"a step", "1", "corpus", "pread", "200"},
    {"a save", "1", "run/checkpoint", "pwrite,write", "1"},
    {"the end", "0", "run/.exit.json.part", "ftruncate", "1"},
};

const Words kEverySecondStep = {"--checkpoint.enable=true", "--checkpoint.interval=2",
                                "--lr_scheduler.total_steps=1000000", "--validation.enable=false"};

TEST_CASE("a rank that is killed or stopped in any phase is named, and nobody survives it") {
  const std::string action = GENERATE("kill", "stop");
  for (const Phase& phase : kPhases) {
    INFO(action << " in " << phase.name);
    // A rank that is stopped after the others have ended with 0 is waited for.
    if (action == "stop" && std::string(phase.name) == "the end") continue;
    const Place place;
    REQUIRE(rondo(place.launch(2, "base", kEverySecondStep + steps(2))).exit_code == 0);
    const Mark mark;
    const bool saves = std::string(phase.name) == "a save";
    const Words words = place.launch(
        2, "run",
        kEverySecondStep + steps(std::string(phase.name) == "the end" ? 4 : 1'000'000) +
            Words{"--checkpoint.initial_load_path=" + (place / "base/checkpoint/step-2").string(),
                  saves ? "--checkpoint.interval=2" : "--checkpoint.interval=1000000",
                  "--comm.init_timeout_seconds=4", "--comm.train_timeout_seconds=3"});
    launch::Launch launcher(without_launch(words),
                            {mark.setting(),
                             {"OMP_NUM_THREADS", "1"},
                             {"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libfailing_files.so"},
                             {"FAILING_FILES_UNDER", (place / phase.under).string()},
                             {"FAILING_FILES_CALLS", phase.calls},
                             {"FAILING_FILES_ACTION", action},
                             {"FAILING_FILES_AT", phase.at},
                             {"FAILING_FILES_RANK", phase.rank}});
    const launch::Finished end = launcher.wait(std::chrono::seconds(90));
    INFO(end.out << end.err);
    CHECK(mark.all_gone());
    if (action == "kill") {
      CHECK(end.code == 137);
      CHECK_THAT(end.err, ContainsSubstring(fmt::format("rank {} ", phase.rank)) &&
                              ContainsSubstring("was killed by SIGKILL"));
    } else {
      CHECK(end.code == 7);
      CHECK_THAT(end.err, ContainsSubstring(fmt::format("rank {} blocks the others", phase.rank)));
    }
  }
}

TEST_CASE("a run keeps its bits, its durations and its resumes when the clock is set") {
  const Place place;
  REQUIRE(rondo(place.launch(2, "straight", kEverySecondStep + steps(8))).exit_code == 0);
  for (const char* offset : {"-86400", "40000000"}) {
    INFO(offset);
    const std::string name = std::string("run") + offset;
    const std::vector<std::pair<std::string, std::string>> clock = {
        {"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libjumping_clock.so"},
        {"JUMPING_CLOCK_FROM", (place / name / "checkpoint/step-2").string()},
        {"JUMPING_CLOCK_S", offset}};
    const Words flags = kEverySecondStep + Words{"--comm.train_timeout_seconds=30"};
    const auto run = [&](int count, const auto& variables) {
      launch::Launch launcher(without_launch(place.launch(2, name, flags + steps(count))), variables);
      const launch::Finished end = launcher.wait(std::chrono::seconds(90));
      INFO(end.out << end.err);
      CHECK(end.code == 0);
    };
    run(6, clock);
    run(8, std::vector<std::pair<std::string, std::string>>{});  // the clock is right again
    for (const nlohmann::json& step : place.metrics(name)) {
      CHECK(step["step_time_s"].get<double>() > 0);
      CHECK(step["step_time_s"].get<double>() < 60);
      CHECK(step["data_wait_s"].get<double>() >= 0);
    }
    CHECK_THAT(place.compare(name, "straight").output, ContainsSubstring("equal bit for bit on 8 steps"));
  }
}

}  // namespace
}  // namespace rondo

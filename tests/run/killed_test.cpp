// Tests runs that are killed or stopped at any moment: their messages, their files, and that no
// process survives.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <future>

#include "tests/run/held_port.h"
#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using launch::holds_soon;
using launch::Launch;

const Words kEndless = {"--training.steps=1000000"};

// A run of 2 ranks that does not end by itself.
struct EndlessRun {
  explicit EndlessRun(const Words& flags = {})
      : launcher(without_launch(place.launch(2, "run", kEndless + flags)), {mark.setting()}) {}

  bool reaches_step(std::size_t step) const {
    return holds_soon([&] { return lines_of(place / "run" / "metrics.jsonl").size() >= step; });
  }

  Place place;
  Mark mark;
  Launch launcher;
};

ProgramResult check_next_run(const Place& place) {
  ProgramResult next = place.play(2, "run", {"--training.steps=2"});
  CHECK(place.metrics("run").size() == 2);
  CHECK(place.exit_record("run")["exit_code"] == 0);
  CHECK(lines_of(place / "run" / "previous-1" / "metrics.jsonl").size() >= 3);
  return next;
}

TEST_CASE("a killed rank ends the run with 137, and is named and recorded by the launcher") {
  const auto [victim, stages] = GENERATE(std::pair{0, 1}, std::pair{1, 1}, std::pair{1, 2});
  INFO(stages << " stages");
  EndlessRun run({fmt::format("--parallelism.pipeline_parallel_degree={}", stages)});
  REQUIRE(run.reaches_step(3));
  const std::vector<int> rank = run.mark.processes(fmt::format("RANK={}", victim));
  REQUIRE(rank.size() == 1);
  kill(rank[0], SIGKILL);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 137);
  CHECK_THAT(end.err,
             ContainsSubstring(fmt::format("rank {} (local rank {}, pid {}) was killed by SIGKILL; the "
                                           "other ranks were stopped",
                                           victim, victim, rank[0])));
  CHECK(run.mark.all_gone());
  const nlohmann::json record = run.place.exit_record("run");
  INFO(record);
  CHECK(record["exit_code"] == 137);
  CHECK(record["rank"] == victim);
  CHECK(record["by"] == "launcher");
  check_next_run(run.place);
}

// The signal may arrive between two ops, when there is no op to name.
TEST_CASE("a rank that crashes says where, on its output and in the run folder, and ends by its signal") {
  bool in_an_op = false;
  for (int attempt = 0; attempt < 20 && !in_an_op; ++attempt) {
    EndlessRun run;
    REQUIRE(run.reaches_step(3));
    const std::vector<int> rank = run.mark.processes("RANK=1");
    REQUIRE(rank.size() == 1);
    kill(rank[0], SIGSEGV);
    const launch::Finished end = run.launcher.wait();
    INFO(end.out << end.err);
    CHECK(end.code == 139);
    CHECK_THAT(end.err, ContainsSubstring("rondo: rank 1 crashed: SIGSEGV at address 0x") &&
                            ContainsSubstring("was killed by SIGSEGV"));
    const std::string report = text_of(run.place / "run/rank_1.crash.txt");
    CHECK_THAT(report, ContainsSubstring("rank 1 crashed: SIGSEGV") && ContainsSubstring("rondo-worker("));
    in_an_op = report.find(", while running ") != std::string::npos;
  }
  CHECK(in_an_op);
}

TEST_CASE("nobody survives a killed launcher, and the next run in its folder reports its end") {
  EndlessRun run;
  REQUIRE(run.reaches_step(3));
  CHECK(run.mark.processes("RANK=0").size() == 1);
  CHECK(run.mark.processes("RANK=1").size() == 1);
  run.launcher.signal(SIGKILL);
  CHECK(run.launcher.wait().code == 137);
  CHECK(run.mark.all_gone());
  CHECK_THAT(check_next_run(run.place).output,
             ContainsSubstring("the previous run in this folder was killed, or its machine went down"));
}

TEST_CASE("a run killed while it starts leaves no process and nothing that disturbs the next run") {
  const int delay_ms = GENERATE(1, 30, 100, 300, 500, 700, 900);
  EndlessRun run;
  std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  run.launcher.signal(SIGKILL);
  run.launcher.wait();
  CHECK(run.mark.all_gone());
  const ProgramResult next = rondo(run.place.launch(2, "run", {"--training.steps=2"}));
  INFO(next.output);
  CHECK(next.exit_code == 0);
}

TEST_CASE(
    "a stop signal ends all ranks after a step with 128 + its number and reports that nothing was saved") {
  const auto [signal, code] = GENERATE(std::pair{SIGTERM, 143}, std::pair{SIGINT, 130});
  EndlessRun run;
  REQUIRE(run.reaches_step(3));
  run.launcher.signal(signal);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == code);
  CHECK_THAT(end.out + end.err, ContainsSubstring(fmt::format("stopped by signal {} (SIG", signal)) &&
                                    ContainsSubstring("nothing was saved"));
  CHECK(run.mark.all_gone());
  const nlohmann::json record = run.place.exit_record("run");
  INFO(record);
  CHECK(record["exit_code"] == code);
  CHECK(record["signal"] == signal);
  CHECK_THAT(record["reason"].get<std::string>(), ContainsSubstring("nothing was saved"));
  check_next_run(run.place);
}

TEST_CASE("a stop signal to one rank ends the run without another failure") {
  EndlessRun run;
  REQUIRE(run.reaches_step(3));
  const std::vector<int> rank = run.mark.processes("RANK=1");
  REQUIRE(rank.size() == 1);
  kill(rank[0], SIGTERM);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 143);
  CHECK(run.mark.all_gone());
}

TEST_CASE("a folder in use by a run that is alive is refused to another") {
  EndlessRun run;
  REQUIRE(run.reaches_step(1));
  const ProgramResult other = rondo(run.place.launch(2, "run"));
  INFO(other.output);
  CHECK(other.exit_code == 6);
  CHECK_THAT(other.output,
             ContainsSubstring("is being written by another run that is still alive; choose another"));
  CHECK_FALSE(std::filesystem::exists(run.place / "run" / "exit.json"));  // the refused run does not write it
  run.launcher.signal(SIGTERM);
  CHECK(run.launcher.wait().code == 143);
}

TEST_CASE("a rank that is stopped while it waits for its peers ends with 143, long before its timeout") {
  const int rank = GENERATE(0, 1);
  const Place place;
  const Mark mark;
  const std::string port = std::to_string(HeldPort().number());
  const Words variables = {"/usr/bin/env",
                           mark.setting().first + "=" + mark.setting().second,
                           fmt::format("RANK={}", rank),
                           fmt::format("LOCAL_RANK={}", rank),
                           "WORLD_SIZE=2",
                           "LOCAL_WORLD_SIZE=2",
                           "MASTER_ADDR=127.0.0.1",
                           "MASTER_PORT=" + port};
  const Words words = variables + Words{kRondo} + place.train("run", {"--comm.init_timeout_seconds=100"});
  std::future<ProgramResult> waiting =
      std::async(std::launch::async, [&] { return run_program(words, 20'000); });
  REQUIRE(holds_soon([&] { return mark.processes().size() == 1; }));
  std::this_thread::sleep_for(std::chrono::seconds(2));  // LibTorch is loaded, the step is traced
  for (const int pid : mark.processes()) kill(pid, SIGTERM);
  const ProgramResult end = waiting.get();
  INFO(end.output);
  CHECK_FALSE(end.timed_out);
  CHECK(end.exit_code == 143);
}

}  // namespace
}  // namespace rondo

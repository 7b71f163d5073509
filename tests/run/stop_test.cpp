// Tests requests to end a run: all ranks agree on a step, save it, and end with exit code 75. The
// same command resumes to the bits of an undisturbed run.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <fstream>

#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using launch::holds_soon;
using launch::Launch;
namespace fs = std::filesystem;

// A run of 2 ranks that continues until a request to end.
struct SavingRun {
  explicit SavingRun(const Words& flags = {})
      : launcher(without_launch(
                     place.launch(2, "run", kSavesAtTheEnd + Words{"--training.steps=1000000"} + flags)),
                 {mark.setting()}) {}

  bool reaches_step(std::size_t step) const {
    return holds_soon([&] { return lines_of(place / "run/metrics.jsonl").size() >= step; });
  }
  std::size_t steps_done() const { return lines_of(place / "run/metrics.jsonl").size(); }

  Place place;
  Mark mark;
  Launch launcher;
};

// Trains five more steps, and compares all bits with the same run undisturbed.
void check_goes_on(const SavingRun& run, const Words& flags = {}) {
  const std::size_t done = run.steps_done();
  const Words steps = flags + Words{fmt::format("--training.steps={}", done + 5)};
  const ProgramResult resumed = run.place.play(2, "run", kSavesAtTheEnd + steps);
  CHECK_THAT(resumed.output,
             ContainsSubstring(fmt::format("step-{}: {} of {} steps are done", done, done, done + 5)));
  run.place.play(2, "straight", kSavesAtTheEnd + steps);
  const ProgramResult compared = run.place.compare("run", "straight");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
  CHECK_THAT(compared.output, ContainsSubstring(fmt::format("equal bit for bit on {} steps", done + 5)));
}

TEST_CASE("a stop signal saves the step that all ranks agree on and ends with 75, SIGINT with 130") {
  const auto [signal, code] = GENERATE(std::pair{SIGTERM, 75}, std::pair{SIGUSR1, 75}, std::pair{SIGUSR2, 75},
                                       std::pair{SIGINT, 130});
  INFO(signal);
  SavingRun run;
  REQUIRE(run.reaches_step(3));
  run.launcher.signal(signal);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == code);
  const std::string log = end.out + end.err,
                    reason = fmt::format("stopped by signal {} (SIG{}) after step {}; it is saved", signal,
                                         sigabbrev_np(signal), run.steps_done());
  CHECK_THAT(log, ContainsSubstring(reason));
  CHECK(log.find(reason) == log.rfind(reason));  // one rank of two says it
  CHECK(run.mark.all_gone());
  CHECK(run.place.exit_record("run")["exit_code"] == code);
  CHECK(fs::exists(run.place / fmt::format("run/checkpoint/step-{}/COMMITTED", run.steps_done())));
  check_goes_on(run);
}

TEST_CASE(
    "a stop signal while weights are drawn ends the run with 75 before its first step, and it can start "
    "again") {
  const Words large = {"--model.dim=4096",     "--model.n_layers=8",    "--model.n_heads=32",
                       "--model.n_kv_heads=8", "--training.steps=1000", "--debug.exceed_memory=true"};
  const Place place;
  const Mark mark;
  Launch launcher(without_launch(place.launch(1, "run", kSavesAtTheEnd + large)), {mark.setting()});
  REQUIRE(holds_soon(
      [&] { return text_of(place / "run/events.jsonl").find("\"compiled\"") != std::string::npos; }));
  launcher.signal(SIGTERM);
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 75);
  CHECK_THAT(end.out + end.err,
             ContainsSubstring("stopped by signal 15 (SIGTERM) before the first step was done; nothing is "
                               "lost, and the same command starts again"));
  CHECK(mark.all_gone());
  CHECK(place.exit_record("run")["exit_code"] == 75);
  must_end_well(place.train("run", steps(1)));
}

TEST_CASE(
    "a plan that exceeds ulimit -v ends the run with 9 before weights are drawn, unless "
    "debug.exceed_memory") {
  const Place place;
  const Words large = {"--model.dim=8192", "--model.n_layers=1", "--model.n_heads=64",
                       "--model.n_kv_heads=8"};
  const auto limited = [&](const Words& flags) {
    return run_program(Words{"/bin/sh", "-c", "ulimit -v 1600000; exec \"$0\" \"$@\"", kRondo} +
                           place.train("run", large + flags),
                       kRunTimeout_ms);
  };
  const ProgramResult refused = limited({});
  INFO(refused.output);
  CHECK(refused.exit_code == 9);
  CHECK_THAT(refused.output, ContainsSubstring(" of a rank's memory, more than the ") &&
                                 ContainsSubstring(" left by ulimit -v: optimizer ") &&
                                 ContainsSubstring("The state alone needs more ranks") &&
                                 ContainsSubstring("debug.exceed_memory = true starts all the same"));
  const ProgramResult begun =
      limited({"--debug.exceed_memory=true"});  // its second matrix of the FFN has no room
  INFO(begun.output);
  CHECK(begun.exit_code == 9);
  CHECK_THAT(begun.output, ContainsSubstring("(debug.exceed_memory)") && ContainsSubstring("out of memory"));
}

TEST_CASE("a stop signal in a pipeline saves and ends with 75, and the pipeline resumes") {
  const Words pipeline = {"--parallelism.pipeline_parallel_degree=2"};
  SavingRun run(pipeline);
  REQUIRE(run.reaches_step(3));
  run.launcher.signal(SIGTERM);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 75);
  CHECK(run.mark.all_gone());
  check_goes_on(run, pipeline);
}

TEST_CASE("a signal to one rank stops and saves all of them") {
  SavingRun run({"--metrics.lag=1", "--debug.hash_every=1000000"});  // the last step is in flight
  REQUIRE(run.reaches_step(3));
  const std::vector<int> rank = run.mark.processes("RANK=1");
  REQUIRE(rank.size() == 1);
  kill(rank[0], SIGTERM);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 75);
  check_goes_on(run);
}

TEST_CASE("the file STOP saves and ends with 75, and no run starts while it exists") {
  SavingRun run;
  REQUIRE(run.reaches_step(3));
  write_text(run.place / "run/STOP", "");
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 75);
  CHECK_THAT(end.out + end.err, ContainsSubstring("stopped by the file STOP in the run folder after step "));
  const ProgramResult refused = rondo(run.place.launch(2, "run", kSavesAtTheEnd));
  INFO(refused.output);
  CHECK(refused.exit_code == 93);
  CHECK_THAT(refused.output, ContainsSubstring("STOP keeps this run stopped; delete that file to continue"));
  CHECK_FALSE(fs::exists(run.place / "run/previous-1"));
  fs::remove(run.place / "run/STOP");
  check_goes_on(run);
}

TEST_CASE("a corrupt metrics file costs the summary at the end, not the exit code") {
  SavingRun run({"--debug.hash_every=0"});
  REQUIRE(run.reaches_step(3));
  std::ofstream(run.place / "run/metrics.jsonl", std::ios::app) << "garbage\n";
  std::ofstream(run.place / "run/STOP");
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 75);
  CHECK_THAT(end.out + end.err, ContainsSubstring("the summary lacks the earlier steps: "));
}

TEST_CASE("the file SAVE saves once and is removed, and the run continues") {
  SavingRun run;
  REQUIRE(run.reaches_step(3));
  write_text(run.place / "run/SAVE", "");
  REQUIRE(holds_soon([&] { return !fs::exists(run.place / "run/SAVE"); }));
  const auto saved = [&] {
    std::size_t count = 0;
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(run.place / "run/checkpoint", none_yet))
      count += fs::exists(entry.path() / "COMMITTED");
    return count;
  };
  CHECK(holds_soon([&] { return saved() == 1; }));
  const std::size_t then = run.steps_done();
  CHECK(run.reaches_step(then + 5));
  CHECK(saved() == 1);
  run.launcher.signal(SIGTERM);
  CHECK(run.launcher.wait().code == 75);
}

TEST_CASE("a run ends in time before its limit, and before the end of its Slurm job") {
  const bool slurm = GENERATE(false, true);
  const Place place;
  const Mark mark;
  const std::string end = std::to_string(std::time(nullptr) + 1003);
  const Words limit = slurm ? Words{"--job.time_margin_seconds=1000"}
                            : Words{"--job.time_limit_seconds=1002", "--job.time_margin_seconds=1000"};
  Launch launcher(
      without_launch(place.launch(2, "run", kSavesAtTheEnd + limit + Words{"--training.steps=1000000"})),
      {mark.setting(), {slurm ? "SLURM_JOB_END_TIME" : "UNUSED", end}});
  const launch::Finished finished = launcher.wait();
  INFO(finished.out << finished.err);
  CHECK(finished.code == 75);
  CHECK_THAT(finished.out + finished.err, ContainsSubstring("stopped by the time limit after step "));
}

TEST_CASE("a second interrupt ends the run at once, and what was committed stays") {
  SavingRun run({"--checkpoint.interval=2"});
  REQUIRE(run.reaches_step(5));
  for (const int pid : run.mark.processes("RANK=0")) kill(pid, SIGSTOP);  // it cannot finish its step
  run.launcher.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  run.launcher.signal(SIGINT);
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 130);
  CHECK(run.mark.all_gone());
  const ProgramResult verified = rondo({"checkpoint", "verify", (run.place / "run").string()});
  INFO(verified.output);
  CHECK(verified.exit_code == 0);
}

TEST_CASE("the launcher starts a failed job again from its last checkpoint") {
  const Place place;
  const Mark mark;
  const Words words = place.launch(
      2, "run",
      kSavesAtTheEnd + Words{"--checkpoint.interval=5", "--training.steps=60", "--debug.hash_every=1"});
  Launch launcher(Words{"--max-restarts=2"} + without_launch(words), {mark.setting()});
  REQUIRE(holds_soon([&] { return lines_of(place / "run/metrics.jsonl").size() >= 12; }));
  for (const int pid : mark.processes("RANK=1")) kill(pid, SIGKILL);
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.out + end.err, ContainsSubstring("resumed from "));
  place.play(2, "straight", kSavesAtTheEnd + steps(60));
  const ProgramResult compared = place.compare("run", "straight");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
  CHECK_THAT(compared.output, ContainsSubstring("equal bit for bit on 60 steps"));
}

}  // namespace
}  // namespace rondo

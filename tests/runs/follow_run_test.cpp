#include "runs/follow_run.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "runs/live_view.h"
#include "support/machine/machine.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

void append_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::app) << text;
}

std::string environment(const std::string& host, pid_t pid) {
  return fmt::format(R"({{"hostname": "{}", "pid": {}}})", host, pid);
}

}  // namespace

TEST_CASE("a followed run reads each line once, and a half written line when it is complete") {
  const Scratch scratch;
  const auto metrics = scratch / "run/metrics.jsonl";
  write_run(scratch / "run", {});
  RunFollower follower(scratch / "run");
  CHECK(follower.look().log.steps.empty());
  append_text(metrics, jsonl(steps(1, 2)));
  CHECK(follower.look().log.steps.lines() == 2);
  const std::string third = jsonl(steps(3, 3));
  append_text(metrics, third.substr(0, 20));
  CHECK(follower.look().log.steps.lines() == 2);
  append_text(metrics, third.substr(20));
  CHECK(follower.look().log.steps.lines() == 3);
  CHECK(follower.look().log.steps.last().step == 3);
  append_text(scratch / "run/events.jsonl",
              "{\"time\":\"2026-01-31T12:00:00.123Z\",\"event\":\"checkpoint\",\"step\":3}\n");
  CHECK(follower.look().events.size() == 1);
}

TEST_CASE("of very many events the first of a run and the last ones are kept, in bounded memory") {
  const Scratch scratch;
  write_run(scratch / "run", steps(1, 5));
  std::string events = "{\"event\":\"start\",\"ranks\":2}\n";
  for (std::size_t step = 1; step <= 3 * RunRecord::kMaxEvents; ++step)
    events += fmt::format("{{\"event\":\"validation\",\"step\":{},\"loss\":1.5}}\n", step);
  write_text(scratch / "run/events.jsonl", events);
  RunFollower follower(scratch / "run");
  for (const RunRecord& run : {read_record(scratch / "run"), follower.look()}) {
    CHECK(run.events.size() <= RunRecord::kMaxEvents);
    CHECK(run.events.front()["event"] == "start");
    CHECK(run.event("validation")["step"] == 3 * RunRecord::kMaxEvents);
  }
  std::string starts;
  for (std::size_t i = 1; i <= 2 * RunRecord::kMaxEvents; ++i)
    starts += fmt::format("{{\"event\":\"start\",\"ranks\":{}}}\n", i);
  write_text(scratch / "run/events.jsonl", starts);
  const RunRecord many = read_record(scratch / "run");
  CHECK(many.events.size() <= RunRecord::kMaxEvents);
  CHECK(many.event("start")["ranks"] == 2 * RunRecord::kMaxEvents);
}

TEST_CASE("a new run in the folder is followed from its beginning") {
  const Scratch scratch;
  write_run(scratch / "run", steps(1, 5));
  RunFollower follower(scratch / "run");
  CHECK(follower.look().log.steps.lines() == 5);
  write_run(scratch / "run", steps(1, 2));
  CHECK(follower.look().log.steps.lines() == 2);
  // As long as the earlier one, so only env.json differs.
  write_text(scratch / "run/env.json", environment("elsewhere", 1));
  write_run(scratch / "run", steps(2, 3));
  CHECK(follower.look().log.steps.recent().front().step == 2);
}

TEST_CASE("a run has ended when exit.json exists, or its process on this machine has exited") {
  const Scratch scratch;
  write_run(scratch / "run", steps(1, 5));
  RunFollower follower(scratch / "run");
  const auto ended = [&] {
    follower.look();
    return follower.has_ended();
  };
  CHECK_FALSE(ended());
  write_text(scratch / "run/env.json", environment(host_name(), getpid()));
  CHECK_FALSE(ended());
  constexpr pid_t kNobody = 4'194'305;  // above the largest possible pid
  write_text(scratch / "run/env.json", environment("elsewhere", kNobody));
  CHECK_FALSE(ended());
  write_text(scratch / "run/env.json", environment(host_name(), kNobody));
  CHECK(ended());
  write_text(scratch / "run/env.json", environment("elsewhere", 1));
  write_text(scratch / "run/exit.json", "");  // reserved at the start
  CHECK_FALSE(ended());
  write_text(scratch / "run/exit.json", R"({"exit_code": 0})");
  CHECK(ended());
}

TEST_CASE("following a path that is not a folder, or has a damaged line, is a data error") {
  const Scratch scratch;
  CHECK_THAT(error_of([&] { RunFollower(scratch / "nowhere"); }),
             ContainsSubstring("4: ") && ContainsSubstring("is not a folder"));
  write_run(scratch / "run", steps(1, 2));
  append_text(scratch / "run/metrics.jsonl", "{}\n");
  RunFollower follower(scratch / "run");
  CHECK_THAT(error_of([&] { follower.look(); }), ContainsSubstring("metrics.jsonl:3: \"step\" is missing"));
}

TEST_CASE("the view of a run has its progress, the time left, the last step and the last events") {
  const Scratch scratch;
  std::vector<StepMetrics> lines = steps(1, 10);
  lines[4].validation_loss = 7.25;
  write_run(scratch / "run", lines);
  write_text(scratch / "run/events.jsonl",
             "{\"time\":\"2026-01-31T12:00:00.123Z\",\"event\":\"start\",\"ranks\":2}\n");
  RunFollower follower(scratch / "run");
  const std::string view = live_view(follower.look(), 80, false);
  // A step of 3 s and nine of 0.5 s, whose median counts; ten steps are left.
  for (const char* part : {"training, ranks: 2\n", "step 10 of 20, 50.0 %, 10.0 k tokens, 5s left\n",
                           "loss 7.00000   grad_norm 1.5000   lr 1.000e-03   validation 7.2500 (step 5)\n",
                           "memory 256.0 MiB\n", "12:00:00 started; ranks: 2\n"})
    CHECK_THAT(view, ContainsSubstring(part));
  CHECK_THAT(live_view(RunFollower(scratch / "run").look(), 30, false),
             ContainsSubstring("loss 7.00000   grad_norm 1.500\n"));
}

}  // namespace rondo

// Tests where the time of a run is said to go.
#include "runs/time_spent.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "runs/follow_run.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

using Catch::Matchers::WithinAbs;

double part(const TimeSpent& time, std::string_view name) {
  for (const TimeSpent::Part& loss : time.losses)
    if (loss.name == name) return loss.seconds;
  return 0;
}

// A run of three starts. The first is killed after step 6, the second ends with a signal, and the
// third finishes. Steps 5 and 6 are computed again. A step takes 0.5 s, the first one 3 s.
void write_three_starts(const std::filesystem::path& folder) {
  std::vector<StepMetrics> lines = steps(1, 20);
  for (StepMetrics& line : lines) line.data_wait_s = 0.125;
  write_run(folder, lines);
  write_text(folder / "metrics.superseded.jsonl", jsonl(steps(5, 6)));
  write_text(folder / "events.jsonl",
             R"({"time":"2026-01-31T12:00:02.000Z","event":"start","seconds":2})"
             "\n"
             R"({"time":"2026-01-31T12:00:04.000Z","event":"training","step":1,"seconds":4})"
             "\n"
             R"({"time":"2026-01-31T12:00:08.000Z","event":"checkpoint","step":4,"waited_s":0.25})"
             "\n"
             R"({"time":"2026-01-31T12:10:03.000Z","event":"start","seconds":3,)"
             R"("ended_before":"2026-01-31T12:00:10.500Z"})"
             "\n"
             R"({"time":"2026-01-31T12:10:05.000Z","event":"training","step":5,"seconds":5})"
             "\n"
             R"({"time":"2026-01-31T12:10:10.000Z","event":"validation","step":10,"seconds":1.5})"
             "\n"
             R"({"time":"2026-01-31T12:11:00.500Z","event":"start","seconds":0.5,)"
             R"("ended_before":"2026-01-31T12:10:20.000Z"})"
             "\n"
             R"({"time":"2026-01-31T12:11:01.500Z","event":"training","step":11,"seconds":1.5})"
             "\n");
  write_text(folder / "exit.json",
             R"({"exit_code": 0, "reason": "finished", "ended_at": "2026-01-31T12:11:08.000Z"})");
}

}  // namespace

TEST_CASE("the time of a run of three starts is told part by part, and the parts are the whole") {
  const Scratch scratch;
  write_three_starts(scratch / "run");
  RunFollower follower(scratch / "run");
  for (const RunRecord& run : {read_record(scratch / "run"), follower.look()}) {
    const TimeSpent time = time_spent(run).value();
    CHECK(time.starts == 3);
    CHECK(time.total_s == 11 * 60 + 8);
    CHECK(time.training_s == 20 * 0.5 + 2.5 - 20 * 0.125);
    CHECK(part(time, "waiting for data") == 20 * 0.125);
    CHECK(part(time, "computed again") == 1);
    CHECK(part(time, "starting") == 4 + 5 + 1.5);
    CHECK(part(time, "down") == (9 * 60 + 49.5) + 40);
    CHECK(part(time, "saving") == 0.25);
    CHECK(part(time, "validating") == 1.5);
    double sum = time.training_s;
    for (const TimeSpent::Part& loss : time.losses) sum += loss.seconds;
    CHECK_THAT(sum, WithinAbs(time.total_s, 1e-9));
    CHECK(goodput_text(time) ==
          "goodput 1.5 % of 11m08s in 3 starts; lost: 10m30s down, 13s other, 11s starting, 3s waiting for "
          "data, 2s validating, 1s computed again");
  }
}

TEST_CASE("a run that trains has spent the time until its last line") {
  const Scratch scratch;
  write_three_starts(scratch / "run");
  std::filesystem::remove(scratch / "run/exit.json");
  const std::chrono::sys_seconds last(std::chrono::seconds(1769861520));  // 12:12:00
  std::filesystem::last_write_time(scratch / "run/metrics.jsonl", std::chrono::file_clock::from_sys(last));
  CHECK(time_spent(read_record(scratch / "run")).value().total_s == 12 * 60);
}

TEST_CASE("where a clock went back within a run, goodput is at most 1 and the parts are the whole") {
  const Scratch scratch;
  write_three_starts(scratch / "run");
  write_text(scratch / "run/exit.json", R"({"exit_code": 0, "ended_at": "2026-01-31T12:00:05.000Z"})");
  const TimeSpent time = time_spent(read_record(scratch / "run")).value();
  double sum = time.training_s;
  for (const TimeSpent::Part& loss : time.losses) sum += loss.seconds;
  CHECK_THAT(sum, WithinAbs(time.total_s, 1e-9));
  CHECK(time.goodput() < 1);
}

TEST_CASE("a run that does not say when it began has no goodput, and hostile events have no effect") {
  const Scratch scratch;
  write_run(scratch / "run", steps(1, 3));
  CHECK_FALSE(time_spent(read_record(scratch / "run")).has_value());
  write_text(scratch / "run/events.jsonl",
             R"({"time":"yesterday","event":"start"})"
             "\n"
             R"({"time":"2026-01-31T12:00:00Z","event":"start","seconds":"many"})"
             "\n"
             R"({"time":7,"event":"training","seconds":-4})"
             "\n"
             R"({"event":"checkpoint","waited_s":null})"
             "\n");
  write_text(scratch / "run/metrics.superseded.jsonl", "{\"step_time_s\":-1}\nnothing\n[]\n");
  write_text(scratch / "run/exit.json", R"({"ended_at": "2026-01-31T12:00:08Z"})");
  const TimeSpent time = time_spent(read_record(scratch / "run")).value();
  CHECK(time.starts == 1);
  CHECK(time.total_s == 8);
  REQUIRE(time.losses.size() == 1);
  CHECK(part(time, "other") == 4);
  write_text(scratch / "run/exit.json", R"({"ended_at": "2025-01-31T12:00:08Z"})");
  CHECK_FALSE(time_spent(read_record(scratch / "run")).has_value());
}

}  // namespace rondo

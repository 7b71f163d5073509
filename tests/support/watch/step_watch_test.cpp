// The watch over steps, with limits of milliseconds and a device's counter made of plain memory.
#include "support/watch/step_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <future>

namespace rondo {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using progress::Doing;

// A watch that looks all the time, and what it said.
struct Bench {
  explicit Bench(std::chrono::milliseconds limit = 1ms, std::chrono::milliseconds first_limit = 1h)
      : watch({.limit = limit, .first_limit = first_limit, .interval = 1ms}, [this](const std::string& what) {
          spoke = true;
          said.set_value(what);
        }) {
    watch.follow([this] {
      ++looks;
      return counted.load();
    });
    progress::at_step(12);
  }
  // Steps that load and connect are over.
  void pass_first_spans(Doing kind = Doing::training) {
    for (int i = 0; i < 2; ++i) const StepWatch::Span quick(watch, kind);
  }
  void wait_for_looks(std::int64_t more) const {
    const std::int64_t until = looks + more;
    while (looks < until && !spoke) std::this_thread::sleep_for(1ms);
  }
  std::string hang() { return said.get_future().get(); }

  std::atomic<std::int64_t> counted = 0, looks = 0;
  std::promise<std::string> said;
  std::atomic<bool> spoke = false;
  StepWatch watch;
};

TEST_CASE("the third step has five times as long as the second one") {
  Bench bench;
  { const StepWatch::Span first(bench.watch, Doing::training); }
  {
    const StepWatch::Span second(bench.watch, Doing::training);
    std::this_thread::sleep_for(1s);
  }
  const StepWatch::Span third(bench.watch, Doing::training);
  progress::running("aten.mm", "layers.0", Phase::backward);
  bench.wait_for_looks(200);
  CHECK_FALSE(bench.spoke);
  progress::running_nothing();
}

TEST_CASE("a step that stands still is told with its number, how long, and where") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  SECTION("in an op") {
    progress::running("aten.mm", "layers.0", Phase::backward);
    CHECK_THAT(bench.hang(), StartsWith("step 12 has stood still for 0.0 s, ") &&
                                 ContainsSubstring(", at aten.mm for layers.0 (backward)"));
    progress::running_nothing();
  }
  SECTION("in a read of its data") {
    const progress::Work loading(Doing::loading);
    const progress::Reading reading("corpus/a.txt");
    CHECK_THAT(bench.hang(), ContainsSubstring(", in a read of corpus/a.txt"));
  }
  SECTION("in a collective") {
    progress::called(87, "all_reduce", "dp", 4, "layers.1");
    progress::waits_for("all_reduce", "dp", 4, "layers.1");
    CHECK_THAT(bench.hang(), ContainsSubstring(", in all_reduce 4 of group dp for layers.1"));
    progress::waits_no_more();
  }
}

TEST_CASE("a first step has the first limit, and none while it runs eagerly and waits for nobody") {
  Bench bench(/*limit=*/1ms, /*first_limit=*/1ms);
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.wait_for_looks(50);
  CHECK_FALSE(bench.spoke);
  progress::running("aten.mm", "", Phase::forward);
  CHECK_THAT(bench.hang(), ContainsSubstring(", at aten.mm (forward)"));
  progress::running_nothing();
}

TEST_CASE("a validation that stands still is told as one") {
  Bench bench;
  bench.pass_first_spans(Doing::validating);
  const StepWatch::Span span(bench.watch, Doing::validating);
  CHECK_THAT(bench.hang(), StartsWith("the validation after step 12 has stood still"));
}

TEST_CASE("what lies in no span may stand still, and so may a first and a second step") {
  Bench bench;
  bench.wait_for_looks(20);
  for (int i = 0; i < 2; ++i) {
    const StepWatch::Span step(bench.watch, Doing::training);
    bench.wait_for_looks(20);
  }
  bench.wait_for_looks(20);
  CHECK_FALSE(bench.spoke);
}

TEST_CASE("whatever begins an op, reads a file or ends a segment has not stood still") {
  Bench bench(/*limit=*/400ms);  // far more than two looks take
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  for (int i = 0; i < 400; ++i) {  // longer than the limit in all
    bench.wait_for_looks(2);
    if (i % 3 == 0) progress::running("aten.mm", "", Phase::forward);
    if (i % 3 == 1) const progress::Reading reading("a.txt");
    if (i % 3 == 2) ++bench.counted;
  }
  CHECK_FALSE(bench.spoke);
  progress::running_nothing();
}

TEST_CASE("steps that took long before may stand still five times as long") {
  Bench bench(/*limit=*/100ms);
  bench.pass_first_spans();
  {
    const StepWatch::Span slow(bench.watch, Doing::training);
    for (const auto began = StepWatch::Clock::now(); StepWatch::Clock::now() - began < 400ms;)
      progress::at_step(12);  // it moves
  }
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.wait_for_looks(200);
  CHECK_FALSE(bench.spoke);
}

TEST_CASE("the first segment that is not done is the one that hangs") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  for (const char* what : {"segment 1 of 3 of f", "segment 2 of 3 of f", "segment 3 of 3 of f"})
    bench.watch.launched(what, false);
  bench.counted = 1;
  CHECK_THAT(bench.hang(), ContainsSubstring(", in segment 2 of 3 of f"));
}

TEST_CASE("a segment that is done before the watch hears of it is not under way") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.counted = 2;
  bench.watch.launched("a", true);
  bench.watch.launched("b", true);
  CHECK_THAT(bench.hang(), ContainsSubstring(", in a step, between two ops"));
}

TEST_CASE("a segment's first run has the first limit, and what stands behind it waits with it") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.watch.launched("warm-up", true);
  bench.watch.launched("behind it", false);
  bench.wait_for_looks(20);
  CHECK_FALSE(bench.spoke);
}

TEST_CASE("a hang ends the process with exit code 7") {
  const pid_t child = fork();
  if (child == 0) StepWatch::end_hung("step 3 has stood still");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace rondo

// The watch over steps, with limits of milliseconds and a device count in plain memory.
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

// A watch that looks all the time, and its message.
struct Bench {
  explicit Bench(std::chrono::milliseconds limit = 1ms, std::chrono::milliseconds first_limit = 1h)
      : watch({.limit = limit, .first_limit = first_limit, .interval = 1ms}, [this](const std::string& what) {
          reported = true;
          message.set_value(what);
        }) {
    watch.follow([this] {
      ++looks;
      return completed.load();
    });
    progress::at_step(12);
  }
  // Ends the first two spans, which have the long limit.
  void pass_first_spans(Doing kind = Doing::training) {
    for (int i = 0; i < 2; ++i) const StepWatch::Span quick(watch, kind);
  }
  void wait_for_looks(std::int64_t more) const {
    const std::int64_t until = looks + more;
    while (looks < until && !reported) std::this_thread::sleep_for(1ms);
  }
  std::string hang() { return message.get_future().get(); }

  std::atomic<std::int64_t> completed = 0, looks = 0;
  std::promise<std::string> message;
  std::atomic<bool> reported = false;
  StepWatch watch;
};

TEST_CASE("the third step has five times the time of the second one") {
  Bench bench;
  { const StepWatch::Span first(bench.watch, Doing::training); }
  {
    const StepWatch::Span second(bench.watch, Doing::training);
    std::this_thread::sleep_for(1s);
  }
  const StepWatch::Span third(bench.watch, Doing::training);
  progress::running("aten.mm", "layers.0", Phase::backward);
  bench.wait_for_looks(200);
  CHECK_FALSE(bench.reported);
  progress::running_nothing();
}

TEST_CASE("a step without progress is reported with its number, the time, and the place") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  SECTION("in an op") {
    progress::running("aten.mm", "layers.0", Phase::backward);
    CHECK_THAT(bench.hang(), StartsWith("step 12 has made no progress for 0.0 s, ") &&
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

TEST_CASE("a first step has the first limit, and no limit while it is eager and waits for no rank") {
  Bench bench(/*limit=*/1ms, /*first_limit=*/1ms);
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.wait_for_looks(50);
  CHECK_FALSE(bench.reported);
  progress::running("aten.mm", "", Phase::forward);
  CHECK_THAT(bench.hang(), ContainsSubstring(", at aten.mm (forward)"));
  progress::running_nothing();
}

TEST_CASE("a validation without progress is reported as one") {
  Bench bench;
  bench.pass_first_spans(Doing::validating);
  const StepWatch::Span span(bench.watch, Doing::validating);
  CHECK_THAT(bench.hang(), StartsWith("the validation after step 12 has made no progress"));
}

TEST_CASE("work outside spans may hang, and so may the first two steps") {
  Bench bench;
  bench.wait_for_looks(20);
  for (int i = 0; i < 2; ++i) {
    const StepWatch::Span step(bench.watch, Doing::training);
    bench.wait_for_looks(20);
  }
  bench.wait_for_looks(20);
  CHECK_FALSE(bench.reported);
}

TEST_CASE("a step that begins ops, reads files or completes segments makes progress") {
  Bench bench(/*limit=*/400ms);  // far more than two looks take
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  for (int i = 0; i < 400; ++i) {  // longer than the limit in total
    bench.wait_for_looks(2);
    if (i % 3 == 0) progress::running("aten.mm", "", Phase::forward);
    if (i % 3 == 1) const progress::Reading reading("a.txt");
    if (i % 3 == 2) ++bench.completed;
  }
  CHECK_FALSE(bench.reported);
  progress::running_nothing();
}

TEST_CASE("after slow steps the limit is five times their time") {
  Bench bench(/*limit=*/100ms);
  bench.pass_first_spans();
  {
    const StepWatch::Span slow(bench.watch, Doing::training);
    for (const auto began = StepWatch::Clock::now(); StepWatch::Clock::now() - began < 400ms;)
      progress::at_step(12);  // makes progress
  }
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.wait_for_looks(200);
  CHECK_FALSE(bench.reported);
}

TEST_CASE("the first segment that is not completed is the one that hangs") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  for (const char* what : {"segment 1 of 3 of f", "segment 2 of 3 of f", "segment 3 of 3 of f"})
    bench.watch.launched(what, false);
  bench.completed = 1;
  CHECK_THAT(bench.hang(), ContainsSubstring(", in segment 2 of 3 of f"));
}

TEST_CASE("a segment that is completed before its launch is reported is not in progress") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.completed = 2;
  bench.watch.launched("a", true);
  bench.watch.launched("b", true);
  CHECK_THAT(bench.hang(), ContainsSubstring(", in a step, between two ops"));
}

TEST_CASE("the first run of a segment has the first limit, also for the segments after it") {
  Bench bench;
  bench.pass_first_spans();
  const StepWatch::Span step(bench.watch, Doing::training);
  bench.watch.launched("warm-up", true);
  bench.watch.launched("after it", false);
  bench.wait_for_looks(20);
  CHECK_FALSE(bench.reported);
}

TEST_CASE("a hang ends the process with exit code 7") {
  const pid_t child = fork();
  if (child == 0) StepWatch::end_hung("step 3 has made no progress");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace rondo

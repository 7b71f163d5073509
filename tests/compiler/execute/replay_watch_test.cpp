// The watch over launched segments, with a counter made of plain memory.
#include "compiler/execute/replay_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <future>

using namespace rondo;
using namespace std::chrono_literals;

namespace {

// A watch that looks all the time, and what it said.
struct Bench {
  std::atomic<std::int64_t> counted = 0, looks = 0;
  std::promise<std::string> said;
  std::atomic<bool> spoke = false;
  ReplayWatch watch{[this] {
                      ++looks;
                      return counted.load();
                    },
                    {.rank = 5, .deadline = 1ms, .first_deadline = 1h, .interval = 1ms},
                    [this](const std::string& what) {
                      spoke = true;
                      said.set_value(what);
                    }};

  void wait_for_looks(std::int64_t more) {
    const std::int64_t until = looks + more;
    while (looks < until) std::this_thread::sleep_for(1ms);
  }
};

}  // namespace

TEST_CASE("a count that stands still is reported with rank, segment and deadline") {
  Bench bench;
  bench.watch.launched("segment 1 of 2 of train_step", false);
  CHECK(bench.said.get_future().get() ==
        "rank 5: segment 1 of 2 of train_step has run for more than 1 ms; another rank is lost or behind, or "
        "a kernel "
        "hangs: look at the other ranks' logs");
}

TEST_CASE("the first segment that is not done is the one that hangs") {
  Bench bench;
  bench.watch.launched("segment 1 of 3 of train_step", true);
  bench.watch.launched("segment 2 of 3 of train_step", false);
  bench.watch.launched("segment 3 of 3 of train_step", false);
  bench.counted = 1;
  CHECK(bench.said.get_future().get().find("segment 2 of 3") != std::string::npos);
}

TEST_CASE("nothing is reported while nothing is under way, or all is done") {
  Bench bench;
  bench.wait_for_looks(20);
  bench.counted = 2;  // done before the watch hears of the launch
  bench.watch.launched("a", true);
  bench.watch.launched("b", true);
  bench.wait_for_looks(20);
  CHECK_FALSE(bench.spoke);
}

TEST_CASE("a first run has more time, and what stands behind it waits with it") {
  Bench bench;
  bench.watch.launched("warm-up", true);
  bench.watch.launched("behind it", false);
  bench.wait_for_looks(20);
  CHECK_FALSE(bench.spoke);
}

TEST_CASE("a hang ends the process with exit code 7") {
  const pid_t child = fork();
  if (child == 0) ReplayWatch::end_hung("rank 0: segment 1 of 1 of train_step hangs");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

#include "support/watch/deadline.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <future>

using namespace rondo;
using namespace std::chrono_literals;

TEST_CASE("the stages of a deadline start in order, and the last may end the process") {
  const pid_t child = fork();
  if (child == 0) {
    int stage = 0;
    const Deadline deadline({{1ms, [&] { ++stage; }}, {2ms, [&] { std::_Exit(stage == 1 ? 42 : 1); }}});
    for (;;) pause();  // hangs
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("no further stage starts once a stage has ended the hang") {
  std::promise<void> released;
  bool last = false;
  {
    const Deadline deadline({{1ms, [&] { released.set_value(); }}, {1h, [&] { last = true; }}});
    released.get_future().wait();  // hangs until then
  }
  CHECK_FALSE(last);
}

TEST_CASE("no stage starts if the work is done in time") {
  std::atomic<int> stages = 0;
  for (int i = 0; i < 100; ++i) const Deadline deadline({{1h, [&] { ++stages; }}});
  CHECK(stages == 0);
}

// Runs of a pool of ranks, by the behavior of their ranks.
#include "launch/rank_pool.h"

#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <sstream>

namespace rondo::launch {
namespace {

constexpr std::chrono::seconds kNever{600};  // far above the time limit of the test

RankPool pool() { return {RONDO_BINARY_DIR "/tests/pool_rank", 3}; }

TEST_CASE("ranks of a pool execute one run after the other") {
  RankPool ranks = pool();
  for (int run = 0; run < 3; ++run) {
    const PlayedRun played = ranks.play(3, {"0", "0", "0"}, kNever);
    CHECK(played.exit_code == 0);
    CHECK_FALSE(played.timed_out);
  }
}

TEST_CASE("ranks of a pool are processes of their own, and end with it") {
  std::set<pid_t> ids;
  {
    RankPool ranks = pool();
    std::istringstream output(ranks.play(3, {"0", "0", "0"}, kNever).output);
    for (pid_t id; output >> id;) ids.insert(id);
    CHECK(ids.size() == 3);
    for (const pid_t id : ids) CHECK(kill(id, 0) == 0);
  }
  for (const pid_t id : ids) CHECK(kill(id, 0) != 0);
}

TEST_CASE("a rank that fails or dies ends the run, although the others wait for it") {
  CHECK(pool().play(3, {"wait", "10", "wait"}, kNever).exit_code == 10);
  const PlayedRun dead = pool().play(3, {"wait", "0", "die"}, kNever);
  CHECK(dead.exit_code == -1);
  CHECK_FALSE(dead.timed_out);
}

TEST_CASE("a run may have fewer ranks than its pool, and the next run more again") {
  RankPool ranks = pool();
  CHECK(ranks.max_ranks() == 3);
  for (const int world : {1, 3, 2}) {
    const PlayedRun played = ranks.play(world, {"world", "world", "world"}, kNever);
    INFO(played.output);
    CHECK(played.exit_code == world);
    const std::ptrdiff_t lines = std::count(played.output.begin(), played.output.end(), '\n');
    CHECK(lines == world);
  }
}

TEST_CASE("ranks that wait for each other time out") {
  const PlayedRun played = pool().play(3, {"0", "wait", "wait"}, std::chrono::seconds(1));
  CHECK(played.timed_out);
  CHECK(played.exit_code == 0);
}

}  // namespace
}  // namespace rondo::launch

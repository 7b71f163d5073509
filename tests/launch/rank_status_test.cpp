// Which rank is the culprit of a hang, by the progress of all ranks.
#include "launch/rank_status.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

namespace rondo::launch {
namespace {

RankStatus waiting(int rank, std::int64_t calls) {
  return {rank,
          12,
          calls,
          /*stopped=*/false,
          /*waits=*/true,
          2,
          "in all_reduce 4 of group dp for layers.1",
          "all_reduce 4 of group dp",
          ""};
}

RankStatus hung(int rank) {
  return {rank, 11,        80, /*stopped=*/false, /*waits=*/false, 3.14, "at aten.mm for layers.0 (forward)",
          "",   "layers.0"};
}

TEST_CASE("a rank without progress that waits for no other is the culprit") {
  const auto culprit = find_hang_culprit({waiting(0, 88), hung(1), waiting(2, 88)});
  REQUIRE(culprit);
  CHECK(culprit->status.rank == 1);
  CHECK(culprit->text ==
        "rank 1 blocks the others: it has made no progress for 3.1 s at step 11, at aten.mm for layers.0 "
        "(forward); rank 2 is at step 12, in all_reduce 4 of group dp for layers.1");
}

TEST_CASE("the culprit may be ahead of the waiting ranks; of several the one with the lowest step is named") {
  RankStatus further = hung(1);
  further.step = 13;
  CHECK(find_hang_culprit({waiting(0, 88), further, waiting(2, 88)})->status.rank == 1);
  CHECK(find_hang_culprit({hung(3), further, waiting(2, 88)})->status.rank == 3);
}

TEST_CASE("a stopped rank is named first, although it waits itself") {
  RankStatus stopped = waiting(2, 90);
  stopped.stopped = true;
  CHECK(find_hang_culprit({waiting(0, 88), hung(1), stopped})->status.rank == 2);
}

TEST_CASE("ranks that wait for different collectives are reported together") {
  RankStatus other = waiting(1, 88);
  other.collective = "all_gather 9 of group dp";
  other.where = "in all_gather 9 of group dp";
  const auto culprit = find_hang_culprit({waiting(0, 88), other});
  REQUIRE(culprit);
  CHECK(culprit->text ==
        "ranks wait for different collectives: rank 1 has made no progress for 2.0 s at step 12, in "
        "all_gather 9 of "
        "group dp; rank 0 is at step 12, in all_reduce 4 of group dp for layers.1");
}

TEST_CASE("there is no culprit among moving ranks, ranks at the same place, or a single rank") {
  RankStatus moving = hung(1);
  moving.still_s = 0.1;
  CHECK_FALSE(find_hang_culprit({waiting(0, 88), moving}));
  CHECK_FALSE(find_hang_culprit({waiting(0, 88), waiting(1, 88)}));
  CHECK_FALSE(find_hang_culprit({hung(0), hung(1)}));
  CHECK_FALSE(find_hang_culprit({hung(0)}));
}

RankStatus pipeline_rank(int rank, std::int64_t calls, const std::string& message) {
  return {rank, 12, calls, /*stopped=*/false, /*waits=*/true, 2, "in " + message, message, ""};
}

TEST_CASE(
    "numbers of calls of different stages do not compare: the edge leads to the rank that is waited for") {
  const RankStatus first = pipeline_rank(0, 40, "receive 7 of group pp_2_to_0"),
                   third = pipeline_rank(2, 90, "receive 5 of group pp_3_to_2"),
                   fourth = pipeline_rank(3, 80, "all_gather 9 of group dp_shard");
  const auto culprit = find_hang_culprit({first, third, fourth});
  REQUIRE(culprit);
  CHECK(
      culprit->text ==
      "ranks wait for each other: rank 3 has made no progress for 2.0 s at step 12, in all_gather 9 of group "
      "dp_shard; rank 0 is at step 12, in receive 7 of group pp_2_to_0");
  CHECK(find_hang_culprit({first, third})->status.rank == 2);  // the status of rank 3 is unknown
  CHECK(find_hang_culprit({pipeline_rank(0, 40, "send 7 of group pp_0_to_1"),
                           pipeline_rank(1, 90, "barrier 1 of group world")})
            ->status.rank == 1);
}

TEST_CASE("ranks whose messages wait in a circle end the search, and one of them is named") {
  const auto culprit = find_hang_culprit({pipeline_rank(0, 40, "receive 7 of group pp_1_to_0"),
                                          pipeline_rank(1, 90, "receive 7 of group pp_0_to_1")});
  REQUIRE(culprit);
  CHECK(culprit->text.starts_with("ranks wait for each other: rank "));
}

TEST_CASE("in a pipeline, too, a rank that is stopped or hangs elsewhere is named first") {
  const RankStatus first = pipeline_rank(0, 40, "receive 7 of group pp_1_to_0"),
                   last = pipeline_rank(2, 30, "receive 7 of group pp_1_to_2");
  CHECK(find_hang_culprit({first, hung(1), last})->status.rank == 1);
  RankStatus stopped = pipeline_rank(1, 99, "receive 7 of group pp_0_to_1");
  stopped.stopped = true;
  CHECK(find_hang_culprit({first, stopped, last})->status.rank == 1);
}

TEST_CASE("a stopped process is detected") {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  CHECK(rank_status_of(0, child, false, {}, 1).stopped);
  CHECK(rank_status_of(0, child, false, {}, 1).where == "stopped by a signal, starting");
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  CHECK_FALSE(rank_status_of(0, getpid(), false, {}, 1).stopped);
}

TEST_CASE("a rank that ended before its last step is named, one that finished is not") {
  progress::Seen seen;
  CHECK_FALSE(rank_status_of(1, getpid(), true, seen, 0).stopped);
  seen.doing = progress::Doing::training;
  seen.step = 12;
  const RankStatus ended = rank_status_of(1, getpid(), true, seen, 0);
  CHECK(ended.stopped);
  CHECK(ended.where == "ended with exit code 0, in a step, between two ops");
  CHECK(find_hang_culprit({waiting(0, 88), ended})->status.rank == 1);
}

}  // namespace
}  // namespace rondo::launch

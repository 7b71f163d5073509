// Wrong programs, each with what is said of it, and how much work a proof is.
#include "parallel/pipeline/prove.h"

#include <catch2/catch_test_macros.hpp>

#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/lower.h"
#include "tests/parallel/pipeline/programs.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::pipeline {
namespace {

// As `rondo pipeline --csv` does.
std::string verdict(const std::string& csv, std::int32_t slots = 0) {
  return error_of([&] {
    const Program program = read_csv(csv, "s.csv");
    if (program.has_messages()) {
      prove(program, slots);
    } else {
      check(program, Form::compute, slots);
      prove(lower(program), slots);
    }
  });
}

const std::string kOnce = "; each microbatch passes each stage once, forward and backward";

TEST_CASE("right programs are proven") {
  CHECK(verdict("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n") == "no error");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "no error");
  CHECK(verdict("0UNSHARD,0F0,0I0,0RESHARD,0UNSHARD,0W0\n") == "no error");
}

TEST_CASE("compute that waits in a circle of two ranks is shown with its path") {
  CHECK(verdict("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
        "3: deadlock: ranks wait for each other in a circle; order the actions so that what is read is made "
        "before\n"
        "  rank 0, action 1 (0B0) waits for rank 1, action 2 (1B0)\n"
        "  rank 1, action 1 (1F1) waits for rank 0, action 2 (0F1)");
}

TEST_CASE("a circle of three ranks is shown without the rank that waits for it") {
  // Rank 3 waits for rank 2, which is in no circle with it.
  CHECK(verdict("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n3F1,3F0,3B0,3B1\n") ==
        "3: deadlock: ranks wait for each other in a circle; order the actions so that what is read is made "
        "before\n"
        "  rank 0, action 1 (0B0) waits for rank 1, action 2 (1B0)\n"
        "  rank 1, action 1 (1F1) waits for rank 0, action 2 (0F1)");
}

TEST_CASE("sends that meet no receive without buffers are a deadlock, and the buffers are named") {
  const std::string naive =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n";
  CHECK(verdict(naive) ==
        "3: deadlock unless messages are buffered: ranks wait for each other in a circle; order sends and "
        "receives so "
        "that each pair can meet, or leave them out: a schedule without messages gets its own\n"
        "  rank 0, action 3 (0SEND_F1) waits for rank 1, action 4 (1RECV_F1)\n"
        "  rank 1, action 3 (1SEND_B0) waits for rank 0, action 4 (0RECV_B0)");
  CHECK(find_deadlock(read_csv(naive, "s.csv"), Buffers::unlimited) == "");
}

TEST_CASE("receives that wait for each other are a deadlock with buffers, too") {
  const std::string both =
      "0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n";
  CHECK(verdict(both) ==
        "3: deadlock: ranks wait for each other in a circle; order the actions so that what is read is made "
        "before\n"
        "  rank 0, action 3 (0RECV_B0) waits for rank 1, action 4 (1SEND_B0)\n"
        "  rank 1, action 2 (1RECV_F1) waits for rank 0, action 4 (0SEND_F1)");
}

TEST_CASE("a message without its other end is lost") {
  CHECK(verdict("0F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "3: rank 1, stage 1: 1RECV_F0 is received, but rank 0 does not send it: 0SEND_F0 is missing; a "
        "message has "
        "a send and a receive");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "3: rank 1, action 0 (1F0) reads what 1RECV_F0 brings, which does not stand before it; what another "
        "rank "
        "made is received before it is read");
}

TEST_CASE("messages of an edge in another order at its other end are refused") {
  CHECK(
      verdict("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
              "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n") ==
      "3: rank 1, action 0 (1RECV_F1) receives message 0 of the edge from rank 0 to rank 1, which is sent as "
      "message 1; the messages of an edge stand in one order at both ends");
}

TEST_CASE("a message that is sent or received twice, at the wrong time or to nobody is refused") {
  const std::string rank_1 = "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n";
  CHECK(verdict("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n" + rank_1) ==
        "3: rank 0, action 2 (0SEND_F0) is there twice; a message is sent once and received once, or its "
        "slot is "
        "used twice");
  CHECK(
      verdict("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
      "3: rank 1, action 1 (1RECV_F0) is there twice; a message is sent once and received once, or its slot "
      "is "
      "used twice");
  CHECK(verdict("0SEND_F0,0F0,0RECV_B0,0B0,0REDUCE_GRAD\n" + rank_1) ==
        "3: rank 0, action 0 (0SEND_F0) comes before what it sends is made; send behind F");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0,0REDUCE_GRAD\n" + rank_1) ==
        "3: rank 0, action 4 (0SEND_B0) has no other end; stage 0 is at the end of the pipeline");
  CHECK(verdict("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0,0REDUCE_GRAD,1REDUCE_GRAD\n") ==
        "3: rank 0, action 1 (0SEND_F0) is a message of a rank to itself; neighbours on one rank need none");
}

TEST_CASE("a forward or a backward that is missing or doubled is refused") {
  CHECK(verdict("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1F1,1B1\n") ==
        "3: rank 1, action 3 (1F1) is there twice" + kOnce);
  CHECK(verdict("0F0,0F1,0F0,0B0,0B1\n1F0,1B0\n") == "3: rank 0, action 2 (0F0) is there twice" + kOnce);
  CHECK(verdict("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n") ==
        "3: rank 0, stage 0: 0I1 is missing" + kOnce + " (I and W, or B)");
  CHECK(verdict("0F0,0I0\n") == "3: rank 0, stage 0: 0W0 is missing" + kOnce + " (I and W, or B)");
  CHECK(verdict("0F0,0B0,0W0\n") ==
        "3: rank 0, action 2 (0W0) is a second backward of its microbatch" + kOnce);
  CHECK(verdict("0F0,0I0,0B0\n") ==
        "3: rank 0, action 2 (0B0) is a second backward of its microbatch" + kOnce);
}

TEST_CASE("a backward before its forward, a W before its I, and a stage before its neighbour are refused") {
  CHECK(verdict("0B0,0F0\n") ==
        "3: rank 0, action 0 (0B0) comes before its forward; a backward reads what the forward of its "
        "microbatch "
        "kept");
  CHECK(verdict("0F0,0W0,0I0\n") ==
        "3: rank 0, action 1 (0W0) comes before the I of its microbatch; W reads the gradients that I made");
  CHECK(verdict("1F0,0F0,1B0,0B0\n") ==
        "3: rank 0, action 0 (1F0) comes before stage 0 has made what it reads; stages of one rank stand in "
        "the "
        "order of their data");
  CHECK(verdict("0F0,1F0,0B0,1B0\n") ==
        "3: rank 0, action 2 (0B0) comes before stage 1 has made what it reads; stages of one rank stand in "
        "the "
        "order of their data");
}

TEST_CASE(
    "weight gradients out of the order of microbatches are refused, whatever the order of the forwards") {
  const std::string rule =
      "; weight gradients of a stage are summed in the order of microbatches, so that their bits are those "
      "of "
      "gradient accumulation";
  CHECK(verdict("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n") ==
        "3: rank 0, action 2 (0B1) is summed where microbatch 0 is the next" + rule);
  CHECK(verdict("0F0,0F1,0I1,0I0,0W1,0W0\n") ==
        "3: rank 0, action 4 (0W1) is summed where microbatch 0 is the next" + rule);
  CHECK(verdict("0F1,0F0,0I1,0I0,0W0,0W1\n") == "no error");
}

TEST_CASE("gradients are reduced once, behind all of them") {
  CHECK(verdict("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n") ==
        "3: rank 0, action 3 (0REDUCE_GRAD) reduces the gradients of its stage twice; REDUCE_GRAD is once a "
        "step");
  CHECK(
      verdict("0F0,0F1,0B0,0REDUCE_GRAD,0B1\n") ==
      "3: rank 0, action 3 (0REDUCE_GRAD) comes behind 1 of 2 weight gradients; REDUCE_GRAD is behind all of "
      "them");
  CHECK(
      verdict("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
      "3: rank 0, stage 0: its gradients are never reduced; write REDUCE_GRAD behind the last of its W or B");
}

TEST_CASE("weights are gathered where they are needed, and gathered and freed in turns") {
  CHECK(verdict("0UNSHARD,0F0,0RESHARD,0B0\n") ==
        "3: rank 0, action 3 (0B0) computes with weights that are sharded; UNSHARD the stage before");
  CHECK(verdict("0UNSHARD,0UNSHARD,0F0,0B0\n") ==
        "3: rank 0, action 1 (0UNSHARD) gathers weights that are there; UNSHARD and RESHARD of a stage take "
        "turns");
  CHECK(verdict("0RESHARD,0F0,0B0\n") ==
        "3: rank 0, action 0 (0RESHARD) frees weights that are not gathered; UNSHARD and RESHARD of a stage "
        "take "
        "turns");
}

TEST_CASE("a slot that a microbatch still holds is not used again") {
  const std::string gpipe = "0F0,0F1,0F2,0B0,0B1,0B2\n";
  CHECK(verdict(gpipe, 3) == "no error");
  CHECK(
      verdict(gpipe, 2) ==
      "3: rank 0, action 2 (0F2) uses slot 0 of stage 0, which microbatch 0 holds until its backward; with 2 "
      "slots a stage can have that many microbatches in flight");
  // W reads activations last.
  CHECK(
      verdict("0F0,0I0,0F1,0W0,0I1,0W1\n", 1) ==
      "3: rank 0, action 2 (0F1) uses slot 0 of stage 0, which microbatch 0 holds until its backward; with 1 "
      "slots a stage can have that many microbatches in flight");
}

TEST_CASE("microbatches out of order take the slots of those that stand between them") {
  const auto in_flight = [](const char* csv) { return check(read_csv(csv, "s.csv"), Form::compute); };
  const char* skips = "0F0,0F2,0B0,0F1,0B1,0B2\n";
  CHECK(in_flight(skips).of_stage == std::vector<std::int32_t>{3});
  CHECK(verdict(skips, 3) == "no error");
  CHECK(verdict(skips, 2).find("0F2) uses slot 0 of stage 0, which microbatch 0 holds") != std::string::npos);
  CHECK(in_flight("0F0,0F1,0F2,0I0,0I2,0W0,0I1,0W1,0W2\n").pending_of_stage == std::vector<std::int32_t>{3});
}

TEST_CASE("a pair is a forward and another microbatch's backward") {
  CHECK(verdict("(0F0;0B0)OVERLAP_F_B\n") ==
        "3: rank 0, action 0 (0F0) runs together with its own backward; neither of a pair may read what the "
        "other "
        "makes");
}

TEST_CASE("an action taken away, doubled or moved is noticed, or leaves a program that runs to its end") {
  int noticed = 0, ran = 0;
  for (const char* name :
       {"1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    const Schedule& schedule = schedule_named(name);
    const Program right = lower(make_program(schedule, {3, schedule.default_stages_per_rank, 6}));
    for (std::size_t rank = 0; rank < 3; ++rank)
      for (std::size_t i = 0; i < right.ranks[rank].size(); ++i)
        for (int kind = 0; kind < 3; ++kind) {
          Program wrong = right;
          std::vector<Action>& actions = wrong.ranks[rank];
          const auto at = actions.begin() + static_cast<std::ptrdiff_t>(i);
          if (kind == 0) actions.erase(at);
          if (kind == 1) actions.insert(at, *at);
          if (kind == 2 && i + 1 < actions.size()) std::swap(actions[i], actions[i + 1]);
          INFO(name << ", rank " << rank << ", action " << i << ", kind " << kind);
          const std::string error = error_of([&] { prove(wrong); });
          if (kind < 2) {
            CHECK(error != "no error");
          } else if (error == "no error") {
            CHECK(find_deadlock(wrong, Buffers::unlimited) == "");
            ++ran;
          }
          noticed += error == "no error" ? 0 : 1;
        }
  }
  CHECK(noticed > 1000);
  CHECK(ran > 50);
}

TEST_CASE("a proof looks at each action twice at most, also of the longest waits") {
  for (const int ranks : {16, 64, 256})
    for (const char* name : {"GPipe", "1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
      const Schedule& schedule = schedule_named(name);
      const Proof proof =
          prove(lower(make_program(schedule, {ranks, schedule.default_stages_per_rank, 2 * ranks})));
      INFO(name << ", " << ranks << " ranks");
      CHECK(proof.events <= 2 * proof.actions);
    }
}

}  // namespace
}  // namespace rondo::pipeline

// Errors of wrong programs, and the number of events of a proof.
#include "parallel/pipeline/prove.h"

#include <catch2/catch_test_macros.hpp>

#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/lower.h"
#include "tests/parallel/pipeline/programs.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::pipeline {
namespace {

// Returns the error of `rondo pipeline --csv`, or "no error".
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

TEST_CASE("correct programs are proven") {
  CHECK(verdict("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n") == "no error");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "no error");
  CHECK(verdict("0UNSHARD,0F0,0I0,0RESHARD,0UNSHARD,0W0\n") == "no error");
}

TEST_CASE("an error shows the wait cycle of two ranks") {
  CHECK(verdict("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
        "3: deadlock: ranks wait for each other in a cycle; order the actions so that each comes after its "
        "input\n"
        "  rank 0, action 1 (0B0) waits for rank 1, action 2 (1B0)\n"
        "  rank 1, action 1 (1F1) waits for rank 0, action 2 (0F1)");
}

TEST_CASE("an error shows the wait cycle without a rank that waits for it") {
  // Rank 3 waits for rank 2, but is not in a cycle with it.
  CHECK(verdict("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n3F1,3F0,3B0,3B1\n") ==
        "3: deadlock: ranks wait for each other in a cycle; order the actions so that each comes after its "
        "input\n"
        "  rank 0, action 1 (0B0) waits for rank 1, action 2 (1B0)\n"
        "  rank 1, action 1 (1F1) waits for rank 0, action 2 (0F1)");
}

TEST_CASE("sends that find no receive without buffers are a deadlock, and the error names the buffers") {
  const std::string unordered =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n";
  CHECK(verdict(unordered) ==
        "3: deadlock unless messages are buffered: ranks wait for each other in a cycle; order sends and "
        "receives so that each pair can rendezvous, or omit all messages: lowering then adds them\n"
        "  rank 0, action 3 (0SEND_F1) waits for rank 1, action 4 (1RECV_F1)\n"
        "  rank 1, action 3 (1SEND_B0) waits for rank 0, action 4 (0RECV_B0)");
  CHECK(find_deadlock(read_csv(unordered, "s.csv"), Buffers::unlimited) == "");
}

TEST_CASE("receives that wait for each other are a deadlock even with buffers") {
  const std::string both =
      "0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n";
  CHECK(verdict(both) ==
        "3: deadlock: ranks wait for each other in a cycle; order the actions so that each comes after its "
        "input\n"
        "  rank 0, action 3 (0RECV_B0) waits for rank 1, action 4 (1SEND_B0)\n"
        "  rank 1, action 2 (1RECV_F1) waits for rank 0, action 4 (0SEND_F1)");
}

TEST_CASE("a message without its other end is refused") {
  CHECK(verdict("0F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "3: rank 1, stage 1: 1RECV_F0 is received, but rank 0 does not send it: 0SEND_F0 is missing; a "
        "message has "
        "a send and a receive");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "3: rank 1, action 0 (1F0) reads 1RECV_F0, which does not come before it; receive what another rank "
        "computed before it is read");
}

TEST_CASE("messages of an edge with different orders at its two ends are refused") {
  CHECK(
      verdict("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
              "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n") ==
      "3: rank 1, action 0 (1RECV_F1) receives message 0 of the edge from rank 0 to rank 1, which is sent as "
      "message 1; put the messages of an edge into the same order at both ends");
}

TEST_CASE("a message that is sent or received twice, at the wrong time or without a receiver is refused") {
  const std::string rank_1 = "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n";
  CHECK(verdict("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n" + rank_1) ==
        "3: rank 0, action 2 (0SEND_F0) is a duplicate; a message is sent once and received once; its slot "
        "would be used twice");
  CHECK(
      verdict("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
      "3: rank 1, action 1 (1RECV_F0) is a duplicate; a message is sent once and received once; its slot "
      "would be used twice");
  CHECK(verdict("0SEND_F0,0F0,0RECV_B0,0B0,0REDUCE_GRAD\n" + rank_1) ==
        "3: rank 0, action 0 (0SEND_F0) comes before its data is computed; send after F");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0,0REDUCE_GRAD\n" + rank_1) ==
        "3: rank 0, action 4 (0SEND_B0) has no other end; stage 0 is at the end of the pipeline");
  CHECK(verdict("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0,0REDUCE_GRAD,1REDUCE_GRAD\n") ==
        "3: rank 0, action 1 (0SEND_F0) is a message of a rank to itself; adjacent stages of one rank need "
        "no message");
}

TEST_CASE("a forward or a backward that is missing or doubled is refused") {
  CHECK(verdict("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1F1,1B1\n") ==
        "3: rank 1, action 3 (1F1) is a duplicate" + kOnce);
  CHECK(verdict("0F0,0F1,0F0,0B0,0B1\n1F0,1B0\n") == "3: rank 0, action 2 (0F0) is a duplicate" + kOnce);
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
        "microbatch saved");
  CHECK(verdict("0F0,0W0,0I0\n") ==
        "3: rank 0, action 1 (0W0) comes before the I of its microbatch; W reads the gradients that I "
        "computes");
  CHECK(verdict("1F0,0F0,1B0,0B0\n") ==
        "3: rank 0, action 0 (1F0) comes before its input from stage 0; stages of one rank run in the order "
        "of their data");
  CHECK(verdict("0F0,1F0,0B0,1B0\n") ==
        "3: rank 0, action 2 (0B0) comes before its input from stage 1; stages of one rank run in the order "
        "of their data");
}

TEST_CASE("weight gradients out of the order of microbatches are refused for any order of forwards") {
  const std::string rule =
      "; weight gradients of a stage are summed in the order of microbatches, so that the result has the "
      "bits of gradient accumulation";
  CHECK(verdict("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n") ==
        "3: rank 0, action 2 (0B1) is summed before microbatch 0" + rule);
  CHECK(verdict("0F0,0F1,0I1,0I0,0W1,0W0\n") ==
        "3: rank 0, action 4 (0W1) is summed before microbatch 0" + rule);
  CHECK(verdict("0F1,0F0,0I1,0I0,0W0,0W1\n") == "no error");
}

TEST_CASE("gradients are reduced once, after the last of them") {
  CHECK(verdict("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n") ==
        "3: rank 0, action 3 (0REDUCE_GRAD) reduces the gradients of its stage twice; use one REDUCE_GRAD "
        "per step");
  CHECK(verdict("0F0,0F1,0B0,0REDUCE_GRAD,0B1\n") ==
        "3: rank 0, action 3 (0REDUCE_GRAD) comes after 1 of 2 weight gradients; put REDUCE_GRAD after all "
        "of them");
  CHECK(verdict("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n") ==
        "3: rank 0, stage 0: its gradients are never reduced; put REDUCE_GRAD after its last W or B");
}

TEST_CASE("weights are gathered before use, and gathers and frees alternate") {
  CHECK(verdict("0UNSHARD,0F0,0RESHARD,0B0\n") ==
        "3: rank 0, action 3 (0B0) computes with sharded weights; put UNSHARD of the stage before it");
  CHECK(verdict("0UNSHARD,0UNSHARD,0F0,0B0\n") ==
        "3: rank 0, action 1 (0UNSHARD) gathers weights that are already gathered; alternate UNSHARD and "
        "RESHARD of a stage");
  CHECK(verdict("0RESHARD,0F0,0B0\n") ==
        "3: rank 0, action 0 (0RESHARD) frees weights that are not gathered; alternate UNSHARD and RESHARD "
        "of a stage");
}

TEST_CASE("a slot in use by a microbatch is not reused") {
  const std::string gpipe = "0F0,0F1,0F2,0B0,0B1,0B2\n";
  CHECK(verdict(gpipe, 3) == "no error");
  CHECK(verdict(gpipe, 2) ==
        "3: rank 0, action 2 (0F2) uses slot 0 of stage 0, which microbatch 0 holds until its backward; 2 "
        "slots allow that many microbatches in flight per stage");
  // W reads activations last.
  CHECK(verdict("0F0,0I0,0F1,0W0,0I1,0W1\n", 1) ==
        "3: rank 0, action 2 (0F1) uses slot 0 of stage 0, which microbatch 0 holds until its backward; 1 "
        "slots allow that many microbatches in flight per stage");
}

TEST_CASE("microbatches out of order take the slots of those between them") {
  const auto in_flight = [](const char* csv) { return check(read_csv(csv, "s.csv"), Form::compute); };
  const char* skips = "0F0,0F2,0B0,0F1,0B1,0B2\n";
  CHECK(in_flight(skips).of_stage == std::vector<std::int32_t>{3});
  CHECK(verdict(skips, 3) == "no error");
  CHECK(verdict(skips, 2).find("0F2) uses slot 0 of stage 0, which microbatch 0 holds") != std::string::npos);
  CHECK(in_flight("0F0,0F1,0F2,0I0,0I2,0W0,0I1,0W1,0W2\n").pending_of_stage == std::vector<std::int32_t>{3});
}

TEST_CASE("a pair is a forward and another microbatch's backward") {
  CHECK(verdict("(0F0;0B0)OVERLAP_F_B\n") ==
        "3: rank 0, action 0 (0F0) runs together with its own backward; neither action of a pair may read "
        "the other's output");
}

TEST_CASE("an action removed, duplicated or moved is refused, or the program still runs to its end") {
  int refused = 0, ran = 0;
  for (const char* name :
       {"1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    const Schedule& schedule = schedule_named(name);
    const Program correct = lower(make_program(schedule, {3, schedule.default_stages_per_rank, 6}));
    for (std::size_t rank = 0; rank < 3; ++rank)
      for (std::size_t i = 0; i < correct.ranks[rank].size(); ++i)
        for (int kind = 0; kind < 3; ++kind) {
          Program wrong = correct;
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
          refused += error == "no error" ? 0 : 1;
        }
  }
  CHECK(refused > 1000);
  CHECK(ran > 50);
}

TEST_CASE("a proof examines each action at most twice, even with the longest waits") {
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

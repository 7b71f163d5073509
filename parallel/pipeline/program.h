// A pipeline schedule as programs: what each rank does in one step, in its order. Plain C++, no model.
//
// A program has two forms. In the form of compute it holds F, B, I and W (and REDUCE_GRAD): schedules are
// generated and written by hand in it. lower() adds the messages (lower.h). An executor plays the second
// form:
//   - each ordered pair of ranks is an edge of its own, with a communicator of its own. The messages of an
//     edge stand in the same order at both ends;
//   - a message may be sent and received beside compute. What reads it waits for it: F for RECV_F, B and I
//   for
//     RECV_B. Stages that are neighbours on one rank need no message;
//   - a pair that runs together begins when both have what they read, and ends together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parallel/pipeline/action.h"

namespace rondo::pipeline {

struct Program {
  std::int32_t stages = 0, microbatches = 0;
  std::vector<std::int32_t> rank_of_stage;
  std::vector<std::vector<Action>> ranks;

  std::int64_t action_count() const;
  bool has_messages() const;
  // Of an edge that a message takes: the other rank.
  std::int32_t peer_of(const Action& message) const { return rank_of_stage[other_end(message).stage]; }
  // Whether F, or B or I, reads a message of another rank: not at the ends, nor beside its neighbour.
  bool reads_message(const Action& compute) const;
  // Place of (stage, microbatch) in tables of all of them.
  std::size_t index(const Action& action) const {
    return static_cast<std::size_t>(action.stage) * microbatches + action.microbatch;
  }
};

// The program of these actions, `place` is what the user calls it. Throws Error(config) where stages or
// microbatches have gaps, or a stage is on two ranks.
Program program_of(std::vector<std::vector<Action>> ranks, const std::string& place);

// The edges of a program: the ordered pairs of ranks that messages take, numbered by sender, then receiver.
class Edges {
 public:
  explicit Edges(const Program& program);
  // REQUIRES: is_send, and that the stage it goes to is on another rank.
  std::size_t of(const Action& send) const { return of_stage_[to_next_stage(send.type) ? 0 : 1][send.stage]; }
  std::vector<std::pair<std::int32_t, std::int32_t>> ends;  // from, to

 private:
  std::array<std::vector<std::size_t>, 2>
      of_stage_;  // for what a stage sends to the next one, to the one before
};

// Which rank a stage lives on. Loop: stage i on rank i mod ranks. V: to the last rank and back, so that the
// first and the last stage share a rank.
enum class StageStyle { loop, v };
std::int32_t rank_of(std::int32_t stage, std::int32_t ranks, StageStyle style);

}  // namespace rondo::pipeline

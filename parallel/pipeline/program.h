// A pipeline schedule as one program a rank: its actions in one step, in order. Plain C++ without
// a model.
//
// A program has two forms. The form of compute has F, B, I and W, and may have REDUCE_GRAD;
// schedules are generated and written by hand in it. lower() adds the messages (lower.h). An
// executor runs the lowered form:
//   - Each ordered pair of ranks is an edge with its own communicator. The messages of an edge have
//     the same order at both ends.
//   - A message may overlap compute. Its reader waits for it: F for RECV_F, B and I for RECV_B.
//     Adjacent stages on one rank need no message.
//   - A pair that runs together starts when both inputs are there, and ends together.
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
  // Returns the other rank of a message's edge.
  std::int32_t peer_of(const Action& message) const { return rank_of_stage[other_end(message).stage]; }
  // True where F, B or I reads a message of another rank: not at the ends of the pipeline, and not
  // from an adjacent stage on the same rank.
  bool reads_message(const Action& compute) const;
  // Returns the index of (stage, microbatch) in tables over both.
  std::size_t index(const Action& action) const {
    return static_cast<std::size_t>(action.stage) * microbatches + action.microbatch;
  }
};

// Builds a program from the actions of each rank. `place` names it in errors. Throws Error(config)
// where stages or microbatches have gaps, or a stage is on two ranks.
Program program_of(std::vector<std::vector<Action>> ranks, const std::string& place);

// The edges of a program: ordered pairs of ranks with messages, numbered by sender, then receiver.
class Edges {
 public:
  explicit Edges(const Program& program);
  // Returns the edge of a message. REQUIRES: is_send, and the next stage is on another rank.
  std::size_t of(const Action& send) const { return of_stage_[to_next_stage(send.type) ? 0 : 1][send.stage]; }
  std::vector<std::pair<std::int32_t, std::int32_t>> ends;  // from, to

 private:
  std::array<std::vector<std::size_t>, 2> of_stage_;  // to the next stage; to the previous one
};

// The rank of a stage. loop: stage i is on rank i mod ranks. v: stages go to the last rank and
// back, so that the first and the last stage share a rank.
enum class StageStyle { loop, v };
std::int32_t rank_of(std::int32_t stage, std::int32_t ranks, StageStyle style);

}  // namespace rondo::pipeline

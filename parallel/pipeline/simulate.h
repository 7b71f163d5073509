// Computes the timeline of a lowered program from the times of compute and messages: when each
// action runs, and how long ranks wait. Takes one pass over the actions. There is no event queue,
// since no time depends on the order of arrivals.
//
// Compute runs in the order of the program and waits for its messages. Messages take no time of a
// rank. A message departs when it is sent and the previous one on its edge has arrived. Receives
// are therefore posted before their place in the program, and the buffers for this are not counted.
//
// A rank gathers a stage's weights at UNSHARD, or else before its first compute waits for its
// input, and again after RESHARD. The rank waits for the gather.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

// Times of one stage and microbatch, in any unit. B takes I + W.
struct StageTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
  // Time of a forward and a backward that run together, as a share of their sum.
  double overlap = 1;
  double unshard = 0;                // to gather the weights
  double of(ActionType type) const;  // 0 for actions that are not compute
};

struct Times {
  std::vector<StageTimes> stages{StageTimes{}};  // one, or one for each
  std::vector<double> messages{0};               // stage i to i + 1 and back; one, or one each
  // Times of pairs that run together, by the stages of forward and backward; other pairs
  // use `overlap`.
  std::map<std::pair<std::int32_t, std::int32_t>, double> pairs = {};
  const StageTimes& of(std::int32_t stage) const { return stages[stages.size() == 1 ? 0 : stage]; }
  double of_message(const Action& send) const;
  double of_pair(const Action& forward, const Action& backward) const;
};

struct Span {
  std::int32_t rank = 0;
  Action action;    // the first one of a pair
  Action together;  // the second one, where action.with_next
  double begin = 0, end = 0;
};

struct Timeline {
  double end = 0;                   // of the whole step
  std::vector<double> busy;         // time of each rank in compute and gathers
  std::vector<double> first, last;  // first begin and last end of each rank
  std::vector<Span> spans;          // rank by rank, in order; empty unless requested

  // Returns the share of idle time in the time of all ranks.
  double bubble_share() const;
  double bubble_share(std::size_t rank) const { return end > 0 ? 1 - busy[rank] / end : 0; }
  // Returns the same share with each rank's step taken from its first begin to its last end. This
  // excludes the waits at the ends of a step, as if steps followed each other without a reduction
  // over all ranks.
  double inner_bubble_share() const;
};

// REQUIRES: a proven program (prove.h), and times >= 0.
Timeline simulate(const Program& lowered, const Times& times, bool with_spans);

}  // namespace rondo::pipeline

// How long a lowered program takes, given the time of each kind of compute and of a message: when each action
// runs, how long ranks wait. One pass over the actions; there is no clock, since nothing depends on who comes
// first.
//
// Compute runs in the program's order, and waits for the messages that it reads. Messages cost a rank no
// time: one leaves when it is sent and the message before it on its edge has arrived. So receives are posted
// ahead of their place in the program; the buffers that this takes are not counted.
//
// A stage's weights are gathered at its UNSHARD, or by then before what its first compute reads has come, and
// once more after RESHARD. The rank waits for that.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

// Of one stage and microbatch, in any unit of time. B takes I + W.
struct StageTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
  // Of a forward and a backward that run together, as a share of the time that they take one after the other.
  double overlap = 1;
  double unshard = 0;                // to gather the weights
  double of(ActionType type) const;  // of compute; 0: takes no time
};

struct Times {
  std::vector<StageTimes> stages{StageTimes{}};  // one for all of them, or one each
  std::vector<double> messages{0};  // between stage i and i + 1, either way: one for all of them, or one each
  // Of a forward and a backward that run together, by their stages, where `overlap` does not tell.
  std::map<std::pair<std::int32_t, std::int32_t>, double> pairs = {};
  const StageTimes& of(std::int32_t stage) const { return stages[stages.size() == 1 ? 0 : stage]; }
  double of_message(const Action& send) const;
  double of_pair(const Action& forward, const Action& backward) const;
};

struct Span {
  std::int32_t rank = 0;
  Action action;    // the first of a pair
  Action together;  // the other one, where action.with_next
  double begin = 0, end = 0;
};

struct Timeline {
  double end = 0;                   // of the whole step
  std::vector<double> busy;         // of each rank: computing and gathering
  std::vector<double> first, last;  // its first begin and its last end
  std::vector<Span> spans;          // rank by rank, in order; if asked for

  // Of the time of all ranks, what they wait for each other.
  double bubble_share() const;
  double bubble_share(std::size_t rank) const { return end > 0 ? 1 - busy[rank] / end : 0; }
  // The same where each rank's step is from its first begin to its last end: nobody waits at the ends of a
  // step, as if one step followed the other without a sum over all ranks in between.
  double inner_bubble_share() const;
};

// REQUIRES: a program that is proven (prove.h), times of 0 or more.
Timeline simulate(const Program& lowered, const Times& times, bool with_spans);

}  // namespace rondo::pipeline

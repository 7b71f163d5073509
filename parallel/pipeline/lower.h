// From actions of compute to programs that send and receive.
//
// Actions are played in time steps of equal length: in each, every rank runs its next action if what it reads
// was made in an earlier step. The messages of a step stand behind its compute, at both ends in one order for
// all ranks. So the lowered program has an order in which every send meets its receive: it cannot deadlock,
// with no buffer anywhere. prove() shows that again from the program alone.
//
// Linear in the actions. REQUIRES of all: check(program, Form::compute) passed. They throw Error(config)
// where ranks wait for each other in a circle, with its path.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

// Of each rank's actions: the step in which it runs. The two of a pair run in one.
using TimeSteps = std::vector<std::vector<std::int64_t>>;
TimeSteps time_steps(const Program& program);

// The program with SEND_F, RECV_F, SEND_B, RECV_B, and with REDUCE_GRAD of each stage that has none, behind
// the last of its weight gradients.
Program lower(const Program& program);

}  // namespace rondo::pipeline

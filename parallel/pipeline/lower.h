// Lowers programs of compute actions to programs that send and receive.
//
// Actions are simulated in time steps of equal length. In each step, every rank runs its next
// action if the action's input was computed in an earlier step. The messages of a step come after
// its compute, in one order for all ranks and at both ends. So an order exists in which every send
// and its receive rendezvous, and the lowered program cannot deadlock without buffers. prove()
// shows this again from the program alone.
//
// Linear in the number of actions. REQUIRES: check(program, Form::compute) passed. Throws
// Error(config) with the cycle where ranks wait for each other.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

// Time steps by rank and action. Both actions of a pair run in the same step.
using TimeSteps = std::vector<std::vector<std::int64_t>>;
TimeSteps time_steps(const Program& program);

// Adds SEND_F, RECV_F, SEND_B and RECV_B, and REDUCE_GRAD after the last weight gradient of each
// stage without one.
Program lower(const Program& program);

}  // namespace rondo::pipeline

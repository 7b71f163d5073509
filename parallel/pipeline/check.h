// Checks the rules of a program that hold without simulating it. Each microbatch passes each
// stage once, first forward, then backward. Weight gradients are summed in the order of
// microbatches. Every message has both ends. Takes one pass over the actions, and a few bytes per
// stage and microbatch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

// Microbatches with activations in memory: from F to B, or to W, which reads them last. A stage
// counts from its oldest to its newest one, since microbatch m uses slot m mod slots.
struct InFlight {
  std::vector<std::int32_t> of_stage;          // maximum
  std::vector<std::int32_t> pending_of_stage;  // between I and W
  std::vector<std::int32_t> of_rank;           // in microbatches of one stage
};

// Returns "rank 1, action 4 (1F3)". Actions are counted from 0 within the rank's program.
std::string place_of(const Program& program, std::size_t rank, std::size_t action);

enum class Form { compute, lowered };

// Checks a program. A lowered one must have all messages and REDUCE_GRAD; the form of compute may
// omit REDUCE_GRAD. `slots` is the number of activation slots of a stage, where microbatch m uses
// slot m mod slots; 0 means unlimited. Throws Error(config) for the first violation, with rank,
// action and rule.
InFlight check(const Program& program, Form form, std::int32_t slots = 0);

}  // namespace rondo::pipeline

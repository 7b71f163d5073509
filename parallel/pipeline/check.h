// What a program must satisfy that the actions show without playing them: each microbatch passes each stage
// once, forward, then backward; weight gradients are summed in the order of microbatches; every message has
// both ends. One pass over the actions, a few bytes a stage and microbatch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

// Microbatches whose activations stand in memory: from F to B, or to W, which reads them last. Of a stage
// they are counted from the oldest to the newest, so that each has a slot, microbatch m the slot m mod slots.
struct InFlight {
  std::vector<std::int32_t> of_stage;          // the most at once
  std::vector<std::int32_t> pending_of_stage;  // between their I and their W
  std::vector<std::int32_t> of_rank;           // over its stages, so in microbatches of one stage
};

// "rank 1, action 4 (1F3)"; actions are counted from 0 in the program of the rank.
std::string place_of(const Program& program, std::size_t rank, std::size_t action);

enum class Form { compute, lowered };

// A lowered program must have all messages and REDUCE_GRAD; in the form of compute the latter may be missing.
// `slots`: a stage has so many slots for activations, microbatch m in slot m mod slots; 0: as many as it
// needs. Throws Error(config) for the first mistake: rank, action, rule.
InFlight check(const Program& program, Form form, std::int32_t slots = 0);

}  // namespace rondo::pipeline

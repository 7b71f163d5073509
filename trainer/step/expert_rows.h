// How many rows of tokens reach the experts of a rank (parallel/expert_parallel.h).
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/step/functions/train_step.h"

namespace rondo {

struct ExpertRows {
  std::int64_t room = 0;      // of a layer, in a microbatch
  std::int64_t balanced = 0;  // that routers send which load all experts alike
  std::int64_t bytes = 0;     // of the room, in the compute dtype
};

// None where the model has no experts, or each rank has all of them.
std::optional<ExpertRows> expert_rows(const Decoder& model, const TrainStepOptions& options);

}  // namespace rondo

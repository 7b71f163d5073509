// The number of token rows that reach the experts of a rank (parallel/expert_parallel.h).
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/step/functions/train_step.h"

namespace rondo {

struct ExpertRows {
  std::int64_t room = 0;      // rows of a layer in a microbatch
  std::int64_t balanced = 0;  // rows under equal load of all experts
  std::int64_t bytes = 0;     // bytes of `room` rows in the compute dtype
};

// Returns nullopt if the model has no experts, or each rank has all of them.
std::optional<ExpertRows> expert_rows(const Decoder& model, const TrainStepOptions& options);

}  // namespace rondo

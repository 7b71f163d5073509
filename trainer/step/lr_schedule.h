// Computes the factor on optimizer.lr of each step: warm-up, stable, decay, as in torchtitan
// (torchtitan/components/lr_scheduler.py). Plain C++.
#pragma once

#include <cstdint>
#include <optional>

#include "config/derived/schedule_steps.h"

namespace rondo {

// Returns the factor of `step`, which counts from 0. Linear warm-up, (step + 1) / warmup; then 1;
// then decay to min_factor by `decay_type`: linear 1 - x, sqrt 1 - sqrt(x), cosine (1 + cos(pi x))
// / 2. A virtual step follows the last step, so that the factor of the last step is not 0.
double lr_factor(std::int64_t step, const ScheduleSteps& schedule, DecayType decay_type, double min_factor);

// The learning rate by the settings of a checkpoint: of its last step, and of the next.
struct RatesOfSaved {
  float last = 0, next = 0;
};

// Returns the learning rate of a step of the schedule, which counts from 0, as the graph takes it.
float learning_rate(const JobConfig& config, std::int64_t schedule_step);
// Returns the first step from `schedule_step` to `last` whose learning rate is 0, or nullopt.
std::optional<std::int64_t> first_without_rate(const JobConfig& config, std::int64_t schedule_step,
                                               std::int64_t last);

}  // namespace rondo

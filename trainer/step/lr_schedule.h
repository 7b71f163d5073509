// Computes the factor on optimizer.lr of each step: warm-up, stable, decay, as in torchtitan
// (torchtitan/components/lr_scheduler.py). Plain C++.
#pragma once

#include <cstdint>

#include "config/derived/schedule_steps.h"

namespace rondo {

// Returns the factor of `step`, which counts from 0. Linear warm-up, (step + 1) / warmup; then 1;
// then decay to min_factor by `decay_type`: linear 1 - x, sqrt 1 - sqrt(x), cosine (1 + cos(pi x))
// / 2. A virtual step follows the last step, so that the factor of the last step is not 0.
double lr_factor(std::int64_t step, const ScheduleSteps& schedule, DecayType decay_type, double min_factor);

}  // namespace rondo

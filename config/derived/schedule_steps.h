// The phases of the learning rate.
#pragma once

#include <cstdint>

#include "config/schema/job_config.h"

namespace rondo {

// The lengths of the three phases; they add up to the length of the schedule.
struct ScheduleSteps {
  std::int64_t warmup = 0;
  std::int64_t stable = 0;
  std::int64_t decay = 0;
};

// The warm-up is at most the schedule. The decay is lr_scheduler.decay_ratio of the schedule, rounded to the
// nearest step, but at most what the warm-up leaves.
ScheduleSteps schedule_steps(const JobConfig& config);

}  // namespace rondo

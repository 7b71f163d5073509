// Phases of the learning rate schedule.
#pragma once

#include <cstdint>

#include "config/schema/job_config.h"

namespace rondo {

// Lengths of the three phases in steps. Their sum is the length of the schedule.
struct ScheduleSteps {
  std::int64_t warmup = 0;
  std::int64_t stable = 0;
  std::int64_t decay = 0;
};

// Returns the phases. The warm-up is at most the schedule. The decay is lr_scheduler.decay_ratio of
// the schedule, rounded to the nearest step, but at most the steps after the warm-up.
ScheduleSteps schedule_steps(const JobConfig& config);

}  // namespace rondo

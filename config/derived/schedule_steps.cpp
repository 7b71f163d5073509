#include "config/derived/schedule_steps.h"

#include <algorithm>
#include <cmath>

namespace rondo {

ScheduleSteps schedule_steps(const JobConfig& config) {
  const std::int64_t total = config.lr_scheduler.total_steps.value_or(config.training.steps);
  const std::int64_t warmup = std::min(config.lr_scheduler.warmup_steps, total);
  const std::int64_t left = total - warmup;
  const double ratio = config.lr_scheduler.decay_ratio.value_or(1.0);
  // Halves to even, as Python rounds.
  const auto decay =
      std::min(static_cast<std::int64_t>(std::nearbyint(static_cast<double>(total) * ratio)), left);
  return {warmup, left - decay, decay};
}

}  // namespace rondo

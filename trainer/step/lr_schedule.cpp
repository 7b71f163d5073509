#include "trainer/step/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rondo {

double lr_factor(std::int64_t step, const ScheduleSteps& schedule, DecayType decay_type, double min_factor) {
  if (step < schedule.warmup) return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  const std::int64_t decay_begin =
      schedule.warmup + schedule.stable + 1;  // the virtual step extends the stable phase
  if (step < decay_begin) return 1.0;
  const double x =
      std::min(1.0, static_cast<double>(step + 1 - decay_begin) / static_cast<double>(schedule.decay));
  double factor = 1.0 - x;
  if (decay_type == DecayType::sqrt) factor = 1.0 - std::sqrt(x);
  if (decay_type == DecayType::cosine) factor = 0.5 * (1.0 + std::cos(std::numbers::pi * x));
  return min_factor + (1.0 - min_factor) * factor;
}

float learning_rate(const JobConfig& config, std::int64_t schedule_step) {
  const LrScheduler& s = config.lr_scheduler;
  return static_cast<float>(config.optimizer.lr *
                            lr_factor(schedule_step, schedule_steps(config), s.decay_type, s.min_lr_factor));
}

// After the warm-up the rate never rises, so the steps before the first without a rate have one.
std::optional<std::int64_t> first_without_rate(const JobConfig& config, std::int64_t schedule_step,
                                               std::int64_t last) {
  if (schedule_step > last || learning_rate(config, last) != 0) return std::nullopt;
  std::int64_t below = std::max(schedule_step, schedule_steps(config).warmup), zero = last;
  if (config.optimizer.lr == 0) return schedule_step;
  while (below < zero) {
    const std::int64_t middle = below + (zero - below) / 2;
    if (learning_rate(config, middle) == 0)
      zero = middle;
    else
      below = middle + 1;
  }
  return zero;
}

}  // namespace rondo

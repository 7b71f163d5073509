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

}  // namespace rondo

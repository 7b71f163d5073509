// Tests the learning rate of each step against torchtitan's lr_scheduler.py with the same settings.
#include "trainer/step/lr_schedule.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_vector.hpp>
#include <optional>
#include <vector>

#include "config/derived/schedule_steps.h"
#include "config/schema/job_config.h"

namespace rondo {
namespace {

struct Settings {
  std::int64_t steps, warmup;
  std::optional<double> decay_ratio;
  DecayType decay_type;
  double min_factor;
};

std::vector<double> factors(const Settings& s) {
  JobConfig config;
  config.training.steps = s.steps;
  config.lr_scheduler.warmup_steps = s.warmup;
  config.lr_scheduler.decay_ratio = s.decay_ratio;
  std::vector<double> factors;
  for (std::int64_t step = 0; step < s.steps; ++step)
    factors.push_back(lr_factor(step, schedule_steps(config), s.decay_type, s.min_factor));
  return factors;
}

}  // namespace

TEST_CASE("each step has the learning rate of torchtitan") {
  const std::vector<std::pair<Settings, std::vector<double>>> of_torchtitan = {
      {{8, 4, {}, DecayType::linear, 0}, {0.25, 0.5, 0.75, 1, 1, 0.75, 0.5, 0.25}},
      {{8, 2, 0.5, DecayType::cosine, 0.1}, {0.5, 1, 1, 1, 1, 0.868198, 0.55, 0.231802}},
      {{8, 0, 0.5, DecayType::sqrt, 0}, {1, 1, 1, 1, 1, 0.5, 0.292893, 0.133975}},
      {{5, 0, 0.5, DecayType::linear, 0}, {1, 1, 1, 1, 0.5}},  // round(2.5) is 2 in Python
      {{4, 4, {}, DecayType::linear, 0}, {0.25, 0.5, 0.75, 1}},
  };
  for (const auto& [settings, expected] : of_torchtitan) {
    INFO(settings.steps << " steps, warm-up " << settings.warmup << ", " << name_of(settings.decay_type));
    CHECK_THAT(factors(settings), Catch::Matchers::Approx(expected).epsilon(1e-5));
  }
}

}  // namespace rondo

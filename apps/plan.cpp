// `rondo-worker plan ...`: what a job will take, before it runs.
#include "trainer/plan/plan.h"

#include <cstdio>

#include "apps/plan_options.h"
#include "apps/worker_commands.h"

namespace rondo {

int run_plan(const std::vector<std::string>& args) {
  const auto options = read_plan_options(args);
  if (!options) return 0;
  const JobPlan plan =
      plan_job(options->config, options->world, options->rank, *options->device, options->timeline);
  std::fputs((options->json ? plan_json(plan) : plan_text(plan)).c_str(), stdout);
  return 0;
}

}  // namespace rondo

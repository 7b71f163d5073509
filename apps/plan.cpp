// `rondo-worker plan ...`: what a job will take, before it runs.
#include <cstdio>
#include <optional>

#include "apps/plan_options.h"
#include "apps/worker_commands.h"
#include "trainer/plan/plan_text.h"

namespace rondo {

int run_plan(const std::vector<std::string>& args) {
  const auto options = read_plan_options(args);
  if (!options) return 0;
  JobPlan plan = plan_job(options->config, options->world, options->rank, options->device, options->timeline);
  if (options->tokens > 0) plan.steps = (options->tokens + plan.tokens_per_step - 1) / plan.tokens_per_step;
  std::optional<Remedies> remedies;
  if (!plan.fits() && options->search_seconds > 0)
    remedies = find_remedies({options->config, options->world}, plan, {.seconds = options->search_seconds});
  std::fputs((options->json ? plan_json(plan, remedies) : plan_text(plan, remedies)).c_str(), stdout);
  return 0;
}

}  // namespace rondo

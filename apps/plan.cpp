// `rondo-worker plan ...`: estimates a job before it runs.
#include <cstdio>
#include <optional>
#include <tuple>

#include "apps/still_working.h"
#include "apps/worker_commands.h"
#include "apps/worker_options.h"
#include "parallel/pipeline/picture.h"
#include "plan/plan_json.h"
#include "plan/plan_text.h"

namespace rondo {

int run_plan(const std::vector<std::string>& args) {
  const auto options = read_plan_options(args);
  if (!options) return 0;
  const StillWorking working("planning");
  JobPlan plan = plan_job(options->config, options->world, options->rank, options->device, options->timeline);
  if (options->tokens > 0) plan.steps = (options->tokens + plan.tokens_per_step - 1) / plan.tokens_per_step;
  if (!options->picture.empty()) {
    const auto& [layout, timeline] = std::tie(plan.pipeline->layout, plan.pipeline->timeline);
    pipeline::require_drawable(layout.program, "plan");
    pipeline::write_picture(options->picture,
                            {plan.pipeline->schedule, layout.program, layout.proof, timeline});
  }
  std::optional<SearchResult> search;
  if (options->search_plans > 0 && (options->search || !plan.fits())) {
    SearchLimits limits{.plans = options->search_plans};
    if (!options->json)
      limits.improved = [](const Improvement& i) { std::fputs(improvement_text(i).c_str(), stderr); };
    search = search_ways({options->config, options->world}, plan, limits);
  }
  std::fputs((options->json ? plan_json(plan, search) : plan_text(plan, search)).c_str(), stdout);
  return 0;
}

}  // namespace rondo

// `rondo-worker plan ...`: estimates a job before it runs.
#include <cstdio>
#include <optional>
#include <tuple>

#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"
#include "parallel/pipeline/picture.h"
#include "plan/comparison.h"
#include "plan/plan_json.h"
#include "plan/plan_text.h"
#include "support/files/atomic_file.h"
#include "support/watch/still_working.h"

namespace rondo {
namespace {

JobPlan plan_of(const PlanOptions& options, std::int64_t world, const ir::DeviceModel& device) {
  JobPlan plan = plan_job(options.config, world, options.rank, device, options.timeline);
  if (options.tokens > 0) plan.steps = plan.steps_for(options.tokens);
  plan.price_per_hour = options.price_per_hour;
  return plan;
}

void compare(const PlanOptions& options) {
  std::vector<JobPlan> plans;
  for (const ir::DeviceModel& device : options.devices)
    for (const std::int64_t world : options.worlds) plans.push_back(plan_of(options, world, device));
  if (!options.picture.empty()) replace_file(options.picture, scaling_svg(plans), FileUse::output);
  const std::string text = options.json ? plans_json(plans) : comparison_text(plans, options.tokens);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int run_plan(const std::vector<std::string>& args) {
  const auto options = read_plan_options(args);
  if (!options) return 0;
  const StillWorking working("planning", options->json);
  if (options->compares()) {
    compare(*options);
    return 0;
  }
  const std::int64_t world = options->worlds.front();
  const JobPlan plan = plan_of(*options, world, options->devices.front());
  if (!options->picture.empty()) {
    const auto& [layout, timeline] = std::tie(plan.pipeline->layout, plan.pipeline->timeline);
    pipeline::require_drawable(layout.program, "plan");
    pipeline::write_picture(options->picture,
                            {plan.pipeline->schedule, layout.program, layout.proof, timeline});
  }
  if (!options->json) {
    std::fputs(plan_text(plan, options->verbose).c_str(), stdout);
    std::fflush(stdout);  // a search takes minutes
  }
  std::optional<SearchResult> search;
  if (options->search_plans > 0 && (options->search || !plan.fits())) {
    SearchLimits limits{.plans = options->search_plans};
    if (!options->json)
      limits.improved = [](const Improvement& i) { std::fputs(improvement_text(i).c_str(), stderr); };
    search = search_ways({options->config, world}, plan, limits);
  }
  if (options->json)
    std::fputs(plan_json(plan, search).c_str(), stdout);
  else if (search)
    std::fputs(ways_text(plan, *search).c_str(), stdout);
  return 0;
}

}  // namespace rondo

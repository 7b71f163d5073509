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
  std::optional<Remedies> remedies;
  const Variant job{options->config, options->world};
  const SearchLimits limits{.seconds = options->search_seconds};
  if (limits.seconds > 0 && !plan.fits()) remedies = find_remedies(job, plan, limits);
  const bool reduces_often = plan.layout.microbatches > 1 && plan.layout.mesh.degree(kWholeShardAxes) > 1;
  if (limits.seconds > 0 && plan.fits() && (plan.pipeline || reduces_often))
    remedies = find_faster(job, plan, limits);
  std::fputs((options->json ? plan_json(plan, remedies) : plan_text(plan, remedies)).c_str(), stdout);
  return 0;
}

}  // namespace rondo

// `rondo-worker check ...`: the part of `rondo config check` that needs LibTorch.
#include <fmt/format.h>

#include <cstdio>

#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"
#include "config/derived/device.h"
#include "plan/plan.h"

namespace rondo {

int run_check(const std::vector<std::string>& args) {
  const auto options = read_check_options(args);
  if (!options) return 0;
  const char* const device = device_of(options->config) == TargetDevice::cpu ? "cpu" : "h200";
  const JobPlan plan =
      plan_job(options->config, options->world, std::nullopt, *ir::find_device_model(device));
  print_valid(options->config);
  fmt::print("traced as one of {} rank{} in {:.1f} s: {} nodes\n", options->world,
             options->world == 1 ? "" : "s", plan.times.total_ms() / 1e3, plan.times.nodes);
  return 0;
}

}  // namespace rondo

// What `rondo plan` does before LibTorch is loaded: help, flags, the configuration and its passes.
#include "apps/commands.h"
#include "apps/plan_options.h"
#include "compiler/pipeline.h"

namespace rondo {

bool before_plan(const Arguments& args) {
  const auto options = read_plan_options(args);
  if (!options) return false;
  const Compile& c = options->config.compile;
  ir::select_passes(ir::all_passes(), {c.passes, c.disable_passes, c.numerics, "cpu"});
  return true;
}

}  // namespace rondo

// What `rondo plan` does before LibTorch is loaded: help, flags, the configuration and its passes.
#include "apps/commands.h"
#include "apps/plan_options.h"
#include "compiler/passes/pipeline.h"
#include "trainer/config/derived.h"

namespace rondo {

bool before_plan(const Arguments& args) {
  const auto options = read_plan_options(args);
  if (!options) return false;
  ir::select_passes(ir::all_passes(),
                    compile_options(options->config, options->device->is_gpu ? "cuda" : "cpu"));
  return true;
}

}  // namespace rondo

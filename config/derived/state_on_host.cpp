#include "config/derived/state_on_host.h"

#include "config/derived/batch.h"

namespace rondo {

std::vector<BrokenRule> broken_state_on_host(const JobConfig& config) {
  if (!config.training.enable_cpu_offload) return {};
  const std::string key = "training.enable_cpu_offload";
  std::vector<BrokenRule> broken;
  if (!config.compile.enable)
    broken.push_back({{key, "compile.enable"}, "needs a recorded graph: set compile.enable = true"});
  if (follows_schedule(config))
    broken.push_back({{key, "parallelism.pipeline_parallel_degree", "parallelism.overlapped_microbatches",
                       "compile.ep_overlap.enabled"},
                      "each body of a schedule would reload its parameters for each microbatch; set "
                      "parallelism.pipeline_parallel_degree = 1, parallelism.overlapped_microbatches = 1 and "
                      "compile.ep_overlap.enabled = false"});
  return broken;
}

}  // namespace rondo

// Plans of jobs whose collectives of activations overlap their products.
#include <catch2/catch_test_macros.hpp>

#include "config/load.h"
#include "plan/plan.h"

namespace rondo {
namespace {

JobPlan plan(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"--model.flavor=70B",
                                    "--model.n_layers=4",
                                    "--training.seq_len=8192",
                                    "--training.local_batch_size=8",
                                    "--parallelism.tensor_parallel_degree=8",
                                    "--compile.memory_policy=full"};
  words.insert(words.end(), flags.begin(), flags.end());
  return plan_job(load_config(words, TargetDevice::cuda), 64, 0, *ir::find_device_model("h100"));
}

double exposed_s(const JobPlan& plan) {
  double seconds = 0;
  for (const auto& [key, totals] : plan.step.collectives)
    if (key.second == "tp") seconds += totals.exposed_s;
  return seconds;
}

TEST_CASE("collectives of activations in pieces are exposed for less than half the time") {
  const JobPlan whole = plan({}), pieces = plan({"--parallelism.enable_async_tensor_parallel=true"});
  CHECK(exposed_s(pieces) < 0.5 * exposed_s(whole));
  CHECK(pieces.tokens_per_s() > 1.02 * whole.tokens_per_s());
  CHECK(pieces.memory.total_bytes() < 1.05 * whole.memory.total_bytes());
}

}  // namespace
}  // namespace rondo

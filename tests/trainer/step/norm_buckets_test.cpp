// Tests how norms of a tensor-parallel model travel. Their bits are tested elsewhere
// (tests/run/tensor_test.cpp, prove/).
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "compiler/ops/op.h"
#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

// Collectives over the ranks that share the norms: data and tensor axes.
struct NormCollectives {
  int gathers = 0, gathers_again = 0, reductions = 0;
  bool operator==(const NormCollectives&) const = default;
};

NormCollectives norm_collectives(int layers, SmallJob::Flags flags) {
  flags.insert(flags.end(),
               {"--parallelism.tensor_parallel_degree=2", fmt::format("--model.n_layers={}", layers),
                "--parallelism.fsdp_reshard_after_forward=always"});
  const StepProgram compiled = SmallJob("llama3", 4, flags).compile(ExecutorKind::replay);
  NormCollectives counts;
  for (const ir::Node& node : compiled.at("train_step").graph().nodes) {
    const std::optional<ir::Collective> collective = ir::collective_of(node);
    if (!collective || collective->group != "dp_tp") continue;
    if (collective->kind == ir::CollectiveKind::reduce_scatter) ++counts.reductions;
    if (collective->kind != ir::CollectiveKind::all_gather) continue;
    ++(node.phase == Phase::forward ? counts.gathers : counts.gathers_again);
  }
  return counts;
}

}  // namespace

TEST_CASE("norms of all tensor-parallel layers are gathered and reduced by one collective each") {
  for (const int layers : {2, 4}) CHECK(norm_collectives(layers, {}) == NormCollectives{1, 1, 1});
}

TEST_CASE("norms are reduced with their layer if it is updated in the backward") {
  const NormCollectives early =
      norm_collectives(4, {"--training.max_norm=inf", "--optimizer.early_step_in_backward=true"});
  CHECK(early.reductions == 5);  // of four layers, and of the last norm
}

TEST_CASE("named buckets divide norms as they say") {
  const NormCollectives named =
      norm_collectives(4, {"--compile.fsdp_buckets=[\"layers.[0-1]\", \"layers.2|layers.3|norm\"]"});
  CHECK(named.gathers == 3);
  CHECK(named.reductions == 3);
}

}  // namespace rondo

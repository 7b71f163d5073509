#include "trainer/step/functions/gradient_sums.h"

#include <algorithm>
#include <utility>

#include "support/scope.h"

namespace rondo {

using at::Tensor;

Range gradient_sums(SignatureBuilder& b, const StepContext& step) {
  const bool whole = step.has_whole_sums();
  const Range sums =
      b.per_parameter(whole ? "unsharded_grad." : "grad.", ir::InputKind::buffer, step.dtype_of_sums());
  for (std::size_t i = 0; i < sums.count; ++i) {
    StepInput& sum = b.function.inputs[sums.begin + i];
    if (whole) sum.type = ir::contiguous(step.dtype_of_sums(), {step.placements[i].shard.part_elements()});
    sum.sharding = step.sharding.of_gradient_sum(step.parameters[i], whole);
  }
  return sums;
}

Tensor reduced_sum(const StepContext& step, std::size_t parameter, const Tensor& sum) {
  const PathScope scope(step.parameters[parameter].name);
  const auto& [shard, shards] = step.placements[parameter];
  const FsdpOptions& options = step.options.sharding.fsdp;
  const Tensor reduced = step.has_whole_sums() ? reduce_gradient(sum, shard.stored(), shards, options)
                                               : sum_over_replicas(sum, options);
  return reduced.to(step.options.state_dtype);
}

bool ReducedSums::any() const {
  return std::any_of(at.begin(), at.end(), [](const auto& input) { return input.has_value(); });
}

ReducedSums reduced_sums(SignatureBuilder& b, const StepContext& step) {
  ReducedSums reduced;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    std::optional<std::size_t>& at = reduced.at.emplace_back();
    if (!step.has_whole_sums() || step.placements[i].shards.ranks == 1) continue;
    StepInput shard = step.inputs.parameters[i];
    shard.name = "reduced_grad." + shard.name;
    shard.kind = ir::InputKind::buffer;
    shard.bucket.clear();
    at = b.add(std::move(shard));
  }
  return reduced;
}

}  // namespace rondo

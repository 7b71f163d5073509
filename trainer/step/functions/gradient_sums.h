// Sums of gradients over microbatches, and their reduction over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "trainer/step/functions/step_parts.h"

namespace rondo {

// Declares the sums of gradients over microbatches. The functions of a stage and the update share
// them. "grad.NAME" still has to be reduced over the replicas, "unsharded_grad.NAME" (the part of a
// parameter that the rank computes with, flattened, without padding) over the shards as well.
Range gradient_sums(SignatureBuilder& b, const StepContext& step);
// Reduces the sum of one parameter over all ranks and returns the shard of this rank.
at::Tensor reduced_sum(const StepContext& step, std::size_t parameter, const at::Tensor& sum);
// Declares the shards of the sums that a stage of a pipeline reduces before the update: whole sums
// of sharded parameters, "reduced_grad.NAME". The stage and the update share them.
struct ReducedSums {
  std::vector<std::optional<std::size_t>> at;  // by parameter; not set: the update reduces the sum
  bool any() const;
};
ReducedSums reduced_sums(SignatureBuilder& b, const StepContext& step);

}  // namespace rondo

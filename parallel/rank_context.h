// The interface of a decoder's forward to the ranks, with one member for each axis of parallelism.
// A decoder is written for one rank; with one rank on an axis, its member is the identity or the
// plain op.
//
// Between layers, activations are [N, D]: N tokens of this rank, D the model dim. A weight that is
// not cut (parallel/flat_shard.h) is applied to these tokens alone. Its gradient is then a sum over
// ranks as well as over tokens.
#pragma once

#include <memory>

#include "parallel/context_parallel.h"
#include "parallel/expert_parallel.h"
#include "parallel/simple_fsdp.h"
#include "parallel/tensor_parallel.h"

namespace rondo {

struct ShardingOptions {
  FsdpOptions fsdp{};
  TensorParallelOptions tensor{};
  ContextParallelOptions context{};
  ExpertParallelOptions experts{};
};

struct RankContext {
  std::shared_ptr<const Weights> weights;
  std::shared_ptr<const TensorParallel> tensor = tensor_parallel({});
  std::shared_ptr<const ContextParallel> context = context_parallel({});
  std::shared_ptr<const ExpertParallel> experts = expert_parallel({});
};

RankContext rank_context(ShardedParameters parameters, const ShardingOptions& options);

}  // namespace rondo

#include "parallel/rank_context.h"

namespace rondo {

RankContext rank_context(ShardedParameters parameters, const ShardingOptions& options) {
  return {sharded_weights(std::move(parameters), options.fsdp), tensor_parallel(options.tensor),
          context_parallel(options.context), expert_parallel(options.experts)};
}

}  // namespace rondo

#include "trainer/step/expert_rows.h"

#include <c10/core/ScalarType.h>

namespace rondo {

std::optional<ExpertRows> expert_rows(const Decoder& model, const TrainStepOptions& options) {
  const ExpertParallelOptions& parallel = options.sharding.experts;
  const std::optional<RoutedTokens> routed = model.routed_tokens();
  if (parallel.group.ranks == 1 || !routed) return std::nullopt;
  const std::int64_t sequence_ranks =
      options.sharding.context.group.ranks * options.sharding.tensor.group.ranks;
  const std::int64_t tokens = options.local_batch_size * options.seq_len / sequence_ranks;
  ExpertRows rows;
  rows.room = parallel.capacity(tokens, routed->experts_per_token, routed->experts);
  rows.balanced = parallel.expert_tp.ranks * tokens * routed->experts_per_token;
  rows.bytes = rows.room * routed->dim *
               static_cast<std::int64_t>(c10::elementSize(options.sharding.fsdp.compute_dtype));
  return rows;
}

}  // namespace rondo

#include "config/derived/batch.h"

namespace rondo {

ContextBalance context_balance(const Parallelism& p) {
  const ContextLoadBalancer balancer = p.context_parallel_load_balancer;
  if (p.exchanges_heads() || balancer == ContextLoadBalancer::none) return ContextBalance::none;
  return balancer == ContextLoadBalancer::headtail ? ContextBalance::headtail : ContextBalance::documents;
}

std::int64_t global_batch_size(const Training& training, std::int64_t data_parallel) {
  return training.global_batch_size == -1 ? training.local_batch_size * data_parallel
                                          : training.global_batch_size;
}

std::int64_t microbatch_size(const JobConfig& config) {
  const Parallelism& p = config.parallelism;
  return p.has_pipeline() ? p.pipeline_parallel_microbatch_size : config.training.local_batch_size;
}

std::optional<std::int64_t> known_microbatches(const JobConfig& config) {
  const Parallelism& p = config.parallelism;
  const std::int64_t local = config.training.local_batch_size, global = config.training.global_batch_size;
  const std::int64_t copies = p.data_parallel_replicate_degree, shards = p.data_parallel_shard_degree;
  const bool any_ranks = global == -1;
  if (!any_ranks && (copies == -1 || shards == -1)) return std::nullopt;
  const std::int64_t rows = any_ranks ? local : global,
                     each = microbatch_size(config) * (any_ranks ? 1 : copies * shards);
  return rows % each == 0 ? std::optional(rows / each) : std::nullopt;
}

}  // namespace rondo

#include "config/derived/batch.h"

#include <algorithm>

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

std::int64_t overlapped_microbatches(const JobConfig& config) {
  if (config.parallelism.has_pipeline()) return 1;
  const std::int64_t halves = config.ep_overlap.enabled ? 2 : 1;
  return std::max(halves, config.parallelism.overlapped_microbatches);
}

bool follows_schedule(const JobConfig& config) {
  return config.parallelism.has_pipeline() || overlapped_microbatches(config) > 1;
}

std::int64_t microbatch_size(const JobConfig& config) {
  const Parallelism& p = config.parallelism;
  return p.has_pipeline()
             ? p.pipeline_parallel_microbatch_size
             : std::max<std::int64_t>(1, config.training.local_batch_size / overlapped_microbatches(config));
}

const char* microbatch_key(const JobConfig& config) {
  if (config.parallelism.has_pipeline()) return "parallelism.pipeline_parallel_microbatch_size";
  return follows_schedule(config) ? "parallelism.overlapped_microbatches" : "training.local_batch_size";
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

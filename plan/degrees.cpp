// A change of a degree keeps the sequences of a step: the local batch and the number of
// microbatches follow. The shard degree stays open, so that it takes the ranks that are left.
// Experts are divided over fewer ranks where a stage has fewer. Keys of a pipeline return to the
// job's values when its degree changes.
#include "plan/degrees.h"

#include <algorithm>

#include "config/derived/batch.h"
#include "config/derived/compile_options.h"
#include "config/derived/layout.h"
#include "config/rules.h"
#include "support/error.h"

namespace rondo {
namespace {

// Returns the largest divisor of `number` that is at most `most`.
std::int64_t divisor(std::int64_t number, std::int64_t most) {
  most = std::clamp<std::int64_t>(most, 1, number);
  while (number % most != 0) --most;
  return most;
}

void reset_pipeline_keys(Parallelism& p, const Parallelism& own) {
  p.pipeline_parallel_schedule = own.pipeline_parallel_schedule;
  p.pipeline_parallel_microbatch_size = own.pipeline_parallel_microbatch_size;
  p.pipeline_parallel_layers_per_stage = own.pipeline_parallel_layers_per_stage;
  p.pipeline_parallel_max_pending_weight_gradients = own.pipeline_parallel_max_pending_weight_gradients;
  p.pipeline_parallel_layout = own.pipeline_parallel_layout;
  p.module_fqns_per_model_part = own.module_fqns_per_model_part;
}

}  // namespace

std::int64_t microbatch(const Variant& v) { return microbatch_size(v.config); }

bool is_valid(const Variant& v, const SearchedJob& searched) {
  try {
    resolve_layout(v.config, v.world);
  } catch (const Error&) {
    return false;
  }
  Problems problems;
  check_rules(v.config, {}, searched.device->is_gpu ? TargetDevice::cuda : TargetDevice::cpu, problems);
  return problems.empty();
}

std::optional<Variant> with_microbatch(Variant v, std::int64_t size, const SearchedJob& searched) {
  Parallelism& p = v.config.parallelism;
  Training& training = v.config.training;
  const std::int64_t others =
      p.pipeline_parallel_degree * p.tensor_parallel_degree * p.context_parallel_degree;
  if (v.world % others != 0 || searched.sequences % (v.world / others) != 0) return std::nullopt;
  const std::int64_t ranks = v.world / others, of_rank = searched.sequences / ranks;
  const std::int64_t taken = divisor(of_rank, size);
  if (p.has_pipeline()) {
    p.pipeline_parallel_microbatch_size = taken;
    if (of_rank * ranks != searched.sequences || training.local_batch_size % taken != 0 ||
        of_rank % training.local_batch_size != 0)
      training.local_batch_size = of_rank;
  } else {
    if (of_rank % (taken * p.overlapped_microbatches) != 0) p.overlapped_microbatches = 1;
    training.local_batch_size = taken * p.overlapped_microbatches;
  }
  const bool follows = training.local_batch_size * ranks == searched.sequences;
  training.global_batch_size =
      follows ? std::min<std::int64_t>(searched.job.config.training.global_batch_size, searched.sequences)
              : searched.sequences;
  if (!is_valid(v, searched)) return std::nullopt;
  return v;
}

std::optional<Variant> with_degrees(Variant v, DenseDegrees degrees, const SearchedJob& searched) {
  const std::int64_t size = microbatch(v);
  Parallelism& p = v.config.parallelism;
  const bool had_pipeline = p.has_pipeline(), had_expert_tensor = p.expert_tensor_parallel_degree > 1;
  if (had_pipeline != (degrees.pipeline > 1) || p.pipeline_parallel_degree != degrees.pipeline)
    reset_pipeline_keys(p, searched.job.config.parallelism);
  if (p.pipeline_parallel_degree != degrees.pipeline) {
    p.module_fqns_per_model_part.clear();
    p.pipeline_parallel_layout.clear();
    p.pipeline_parallel_layers_per_stage.reset();
  }
  p.pipeline_parallel_degree = degrees.pipeline;
  if (p.has_pipeline()) p.overlapped_microbatches = 1;
  p.tensor_parallel_degree = degrees.tensor;
  if (degrees.tensor == 1) {
    p.enable_async_tensor_parallel = false;
    v.config.compile.tensor_parallel_pieces = 0;
  }
  p.context_parallel_degree = degrees.context;
  p.data_parallel_shard_degree = -1;
  if (had_expert_tensor) p.expert_tensor_parallel_degree = degrees.tensor;
  if (p.has_pipeline()) {
    if (p.expert_overflow == ExpertOverflow::repeat && p.expert_capacity_factor > 0)
      p.expert_overflow = ExpertOverflow::skip;  // a pipeline cannot repeat a step
    if (memory_policy(v.config) == MemoryPolicy::sac_and_offload) v = with_policy(v, MemoryPolicy::full);
  } else if (p.expert_overflow == ExpertOverflow::skip) {
    p.expert_overflow = searched.job.config.parallelism.expert_overflow;
  }
  for (; p.expert_parallel_degree > 0; p.expert_parallel_degree /= 2)
    if (auto way = with_microbatch(v, p.has_pipeline() && !had_pipeline ? 1 : size, searched)) return way;
  return std::nullopt;
}

DenseDegrees degrees_of(const Variant& v) {
  const Parallelism& p = v.config.parallelism;
  return {p.pipeline_parallel_degree, p.tensor_parallel_degree, p.context_parallel_degree};
}

Variant leanest(Variant way, const SearchedJob& searched) {
  way.config.compile.numerics = Numerics::rounds;
  const Variant lean = with_policy(std::move(way), MemoryPolicy::full);
  return with_microbatch(lean, 1, searched).value_or(lean);
}

std::optional<Variant> with_state_on_host(Variant way, const SearchedJob& searched) {
  const ir::DeviceModel& device = *searched.device;
  // A GPU that shares the host's memory reads and writes "the host" with half of its rate each.
  if (!device.is_gpu || 2 * device.host_bytes_per_s >= 0.9 * device.peak_memory_bytes_per_s)
    return std::nullopt;
  way.config.training.enable_cpu_offload = true;
  way.config.parallelism.overlapped_microbatches = 1;
  const DenseDegrees degrees = degrees_of(way);
  return with_degrees(std::move(way), {1, degrees.tensor, degrees.context}, searched);
}

std::optional<Variant> with_world(Variant way, std::int64_t world, const SearchedJob& searched) {
  way.world = world;
  return with_degrees(way, degrees_of(way), searched);
}

std::optional<Variant> with_sequences(const Variant& way, const SearchedJob& searched) {
  return with_microbatch(way, microbatch(way), searched);
}

std::vector<Variant> other_batches(const Variant& way, const SearchedJob& searched) {
  std::vector<Variant> variants;
  if (searched.job.config.training.global_batch_size != -1) return variants;
  for (const std::int64_t half_times : {1, 4}) {
    SearchedJob other = searched;
    other.sequences = searched.sequences * half_times / 2;
    if (other.sequences == 0) continue;
    for (const std::int64_t size : {microbatch(way) * half_times / 2, microbatch(way)})
      if (size > 0)
        if (const auto v = with_microbatch(way, size, other)) variants.push_back(*v);
  }
  return variants;
}

}  // namespace rondo

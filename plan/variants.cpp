// A variant is a changed configuration. Its flags are the difference to the job's configuration, so
// what is advised is what was planned. A layout leaves the shard degree open, so that it follows
// from the other degrees. Settings that contradict a new memory policy are reset with it.
// resolve_layout decides whether degrees fit the model and the ranks.
#include "plan/variants.h"

#include <algorithm>
#include <array>

#include "config/derived/compile_options.h"
#include "config/derived/layout.h"
#include "models/parts/model_spec.h"
#include "parallel/pipeline/schedules.h"
#include "support/error.h"

namespace rondo {
namespace {

constexpr const char* kLayers = "n_layers";  // a size of every model
// Ordered from few saved bytes to many, for the first kOrderedPolicies.
constexpr MemoryPolicy kOffloading = MemoryPolicy::sac_and_offload;  // not for pipelines
constexpr MemoryPolicy kPolicies[] = {MemoryPolicy::full, MemoryPolicy::min_cut, MemoryPolicy::selective,
                                      MemoryPolicy::none, kOffloading};
constexpr std::int32_t kMostStagesPerRank = 8;

std::string as_word(const FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : to_toml(value);
}

// Returns whether degrees, ranks and model are consistent; with an open batch, for any batch.
bool resolves(Variant variant, bool batch_is_open = false) {
  if (batch_is_open) variant.config.training.global_batch_size = -1;
  try {
    resolve_layout(variant.config, variant.world);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns `first`, then the others of 1, 2, 4, ... from `least` to `most`.
std::vector<std::int64_t> doubled(std::int64_t first, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> degrees = {first};
  for (std::int64_t degree = least; degree <= most; degree *= 2)
    if (degree != first) degrees.push_back(degree);
  return degrees;
}

// Sets a memory policy through activation_checkpoint.mode if that has it and compile.memory_policy
// is "auto".
Variant with_policy(Variant v, MemoryPolicy policy) {
  using enum ActivationCheckpointMode;
  if (memory_policy(v.config) == policy) return v;
  std::optional<MemoryPolicy>& own = v.config.compile.memory_policy;
  ActivationCheckpointMode& mode = v.config.activation_checkpoint.mode;
  constexpr std::array kModes = {none, selective, full};
  const auto of_policy = std::find_if(kModes.begin(), kModes.end(),
                                      [&](auto candidate) { return policy_of_mode(candidate) == policy; });
  if (!own && of_policy != kModes.end()) {
    mode = *of_policy;
  } else {
    own = policy;
    mode = none;
  }
  v.config.compile.memory_budget_gib = 0;
  v.config.compile.full_recompute_save_ops.clear();
  v.config.compile.full_recompute_all_to_all = false;
  return v;
}

// Returns microbatch sizes of a pipeline; the sequences of a step stay the same.
std::vector<Variant> microbatches(Variant job, std::int64_t sequences) {
  if (sequences > 0 && job.config.training.global_batch_size != -1)
    job.config.training.global_batch_size = sequences;
  std::vector<Variant> variants;
  std::int64_t& size = job.config.parallelism.pipeline_parallel_microbatch_size;
  for (; size > 0; size /= 2)
    if (resolves(job)) variants.push_back(job);
  return variants;
}

}  // namespace

std::vector<std::string> flags_between(const Variant& job, const Variant& variant) {
  std::vector<std::string> flags;
  JobConfig from = job.config, to = variant.config;
  for (const Section& section : sections())
    for (const Field& field : *section.fields)
      if (const FieldValue value = field.get(section.in(to)); value != field.get(section.in(from)))
        flags.push_back("--" + section.name + "." + field.name + "=" + as_word(value));
  if (job.world != variant.world) flags.push_back("--world " + std::to_string(variant.world));
  return flags;
}

std::vector<Variant> layouts(const Variant& job, std::int64_t world, std::int64_t most_tensor_parallel) {
  const Parallelism& own = job.config.parallelism;
  const ModelSpec* model = find_model_spec(job.config.model.name);
  const bool has_experts = model != nullptr && !model->shared(job.config.model.sizes).experts.empty();
  const std::int64_t experts = own.expert_parallel_degree;
  std::vector<Variant> variants;
  for (const std::int64_t replicas : doubled(own.data_parallel_replicate_degree, 1, 1))
    for (const std::int64_t tensor :
         doubled(own.tensor_parallel_degree, 1, std::min(world, most_tensor_parallel)))
      for (const std::int64_t expert :
           doubled(experts, 2 * experts, has_experts ? std::min(world, 4 * experts) : 0)) {
        Variant v{job.config, world};
        Parallelism& degrees = v.config.parallelism;
        degrees.data_parallel_replicate_degree = replicas;
        degrees.tensor_parallel_degree = tensor;
        degrees.expert_parallel_degree = expert;
        if (tensor == 1) {
          degrees.enable_async_tensor_parallel = false;
          v.config.compile.tensor_parallel_pieces = 0;
        }
        if (own.expert_tensor_parallel_degree > 1) degrees.expert_tensor_parallel_degree = tensor;
        v.config.compile.enable = true;  // plans are of the replay
        v.config.compile.executor = ExecutorKind::replay;
        if (!resolves(v, /*batch_is_open=*/true)) degrees.data_parallel_shard_degree = -1;
        if (resolves(v, /*batch_is_open=*/true)) variants.push_back(std::move(v));
      }
  return variants;
}

std::vector<Variant> pipelines(const Variant& job) {
  std::vector<Variant> variants = {job};
  const Parallelism& own = job.config.parallelism;
  if (!own.has_pipeline() || !own.pipeline_parallel_schedule_csv.empty()) return variants;
  const std::int64_t layers = layer_count(job.config) + own.pipeline_parallel_first_stage_less_layers +
                              own.pipeline_parallel_last_stage_less_layers;
  for (const pipeline::Schedule& schedule : pipeline::schedules())
    for (std::int32_t per_rank = 1; per_rank <= kMostStagesPerRank; per_rank *= 2) {
      if (per_rank < schedule.least_stages_per_rank || per_rank > schedule.most_stages_per_rank) continue;
      Variant v = job;
      Parallelism& p = v.config.parallelism;
      p.pipeline_parallel_schedule = schedule.name;
      p.module_fqns_per_model_part.clear();
      p.pipeline_parallel_layout.clear();
      p.pipeline_parallel_layers_per_stage.reset();
      p.pipeline_parallel_max_pending_weight_gradients.reset();
      if (per_rank != schedule.default_stages_per_rank) {
        const std::int64_t stages = per_rank * own.pipeline_parallel_degree;
        const std::int64_t each = (layers + stages - 1) / stages;
        if ((layers + each - 1) / each != stages) continue;
        p.pipeline_parallel_layers_per_stage = each;
      }
      if (resolves(v) && !flags_between(job, v).empty()) variants.push_back(std::move(v));
    }
  return variants;
}

Variant with_other_gradient_sync(Variant job) {
  GradientSync& sync = job.config.parallelism.fsdp_gradient_sync;
  sync = sync == GradientSync::step ? GradientSync::microbatch : GradientSync::step;
  return job;
}

Variant with_layout(Variant job, const std::string& layout) {
  Parallelism& p = job.config.parallelism;
  p.module_fqns_per_model_part.clear();
  p.pipeline_parallel_layers_per_stage.reset();
  p.pipeline_parallel_layout = layout;
  return job;
}

Variant with_pending(Variant job, std::int64_t most) {
  job.config.parallelism.pipeline_parallel_max_pending_weight_gradients = most;
  return job;
}

std::vector<Variant> microbatch_sizes(const Variant& job) {
  std::vector<Variant> variants;
  if (!job.config.parallelism.has_pipeline()) return variants;
  const std::int64_t own = job.config.parallelism.pipeline_parallel_microbatch_size;
  for (const std::int64_t size : {own / 2, own * 2}) {
    if (size == 0) continue;
    Variant v = job;
    v.config.parallelism.pipeline_parallel_microbatch_size = size;
    if (resolves(v)) variants.push_back(std::move(v));
  }
  return variants;
}

std::vector<Variant> losses(const Variant& job) {
  Variant chunked = job;
  chunked.config.compile.numerics = Numerics::rounds;
  if (job.config.compile.numerics == Numerics::rounds)
    chunked.config.compile.loss_chunks = 4 * std::max<std::int64_t>(job.config.compile.loss_chunks, 4);
  return {chunked, job};
}

std::vector<Variant> memory_policies(const Variant& job) {
  std::vector<Variant> variants;
  for (const MemoryPolicy policy : kPolicies)
    if (policy != kOffloading || !job.config.parallelism.has_pipeline())
      variants.push_back(with_policy(job, policy));
  const MemoryPolicy own = memory_policy(job.config);
  if (std::find(std::begin(kPolicies), std::end(kPolicies), own) == std::end(kPolicies))
    variants.push_back(job);
  return variants;
}

std::vector<Variant> local_batches(const Variant& job, std::int64_t sequences) {
  Variant open = job;
  open.config.training.global_batch_size = -1;
  const std::int64_t ranks = resolve_layout(open.config, job.world).data_parallel();
  if (sequences % ranks != 0) return {};
  if (job.config.parallelism.has_pipeline()) return microbatches(job, sequences);
  const std::int64_t most = sequences > 0 ? sequences / ranks : job.config.training.local_batch_size;
  std::vector<Variant> variants;
  for (std::int64_t local = most; local > 0; local = local % 2 == 0 ? local / 2 : local > 1 ? 1 : 0) {
    Variant v = open;
    v.config.training.local_batch_size = local;
    if (sequences > 0 && (local < most || job.config.training.global_batch_size != -1))
      v.config.training.global_batch_size = sequences;
    if (resolves(v)) variants.push_back(std::move(v));
  }
  return variants;
}

std::int64_t layer_count(const JobConfig& config) {
  return std::get<std::int64_t>(config.model.sizes.at(kLayers));
}

Variant with_layers(const Variant& job, std::int64_t layers) {
  Variant v = job;
  const double share = static_cast<double>(layers) / static_cast<double>(layer_count(job.config));
  v.config.model.sizes[kLayers] = layers;
  v.config.compile.memory_budget_gib *= share;
  v.config.compile.cpu_offload_budget_gb *= share;
  return v;
}

std::int64_t fewest_layers(const JobConfig& config) {
  const ModelSpec& model = *find_model_spec(config.model.name);
  FieldValues sizes = config.model.sizes;
  for (std::int64_t layers = 1; layers < layer_count(config); ++layers) {
    sizes[kLayers] = layers;
    if (model.problems(sizes).empty()) return layers;
  }
  return layer_count(config);
}

}  // namespace rondo

// A variant is a changed configuration. Its flags are the difference to the job's configuration, so
// what is advised is what was planned. Settings that contradict a new memory policy are reset with
// it.
#include "plan/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "config/derived/compile_options.h"
#include "config/derived/layout.h"
#include "models/parts/model_spec.h"
#include "parallel/pipeline/schedules.h"
#include "support/error.h"

namespace rondo {
namespace {

constexpr const char* kLayers = "n_layers";                          // a size of every model
constexpr MemoryPolicy kOffloading = MemoryPolicy::sac_and_offload;  // not for pipelines
constexpr MemoryPolicy kPolicies[] = {MemoryPolicy::full,      MemoryPolicy::min_cut, MemoryPolicy::eager,
                                      MemoryPolicy::selective, MemoryPolicy::none,    kOffloading};
constexpr std::int32_t kMaxStagesPerRank = 8;

// Formats a value so that a shell passes it on: a list as words with commas.
std::string as_word(const FieldValue& value) {
  if (const auto* words = std::get_if<std::vector<std::string>>(&value))
    return fmt::format("{}", fmt::join(*words, ","));
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : to_toml(value);
}

bool resolves(const Variant& variant) {
  try {
    resolve_layout(variant.config, variant.world);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Variant with_policy(Variant v, MemoryPolicy policy) {
  using enum ActivationCheckpointMode;
  if (memory_policy(v.config) == policy) return v;
  std::optional<MemoryPolicy>& own = v.config.compile.memory_policy;
  ActivationCheckpointMode& mode = v.config.activation_checkpoint.mode;
  constexpr std::array kModes = {none, selective, full};
  const auto of_policy = std::find_if(kModes.begin(), kModes.end(),
                                      [&](auto candidate) { return policy_of_mode(candidate) == policy; });
  if (memory_policy(v.config) == MemoryPolicy::budget)
    v.config.activation_checkpoint.memory_budget = ActivationCheckpoint().memory_budget;
  if (of_policy != kModes.end()) {
    own.reset();
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

std::vector<std::string> training_changes(const Variant& job, const Variant& variant) {
  std::vector<std::string> words;
  const JobConfig &from = job.config, &to = variant.config;
  if (to.optimizer.implementation != from.optimizer.implementation &&
      to.optimizer.implementation == OptimizerImplementation::fused_opt_states_bf16)
    words.emplace_back("moments in bfloat16");
  for (const std::string& converter : to.model.converters)
    if (std::find(from.model.converters.begin(), from.model.converters.end(), converter) ==
        from.model.converters.end())
      words.emplace_back(converter == "float8" ? "linear layers in float8" : "experts in float8");
  const Parallelism &own = from.parallelism, &other = to.parallelism;
  if (other.expert_capacity_factor != own.expert_capacity_factor)
    words.push_back(fmt::format("capacity for {} times the balanced rows of an expert's rank",
                                other.expert_capacity_factor));
  if (other.expert_overflow != own.expert_overflow)
    words.emplace_back(other.expert_overflow == ExpertOverflow::drop ? "drops rows beyond the capacity"
                       : other.expert_overflow == ExpertOverflow::skip
                           ? "skips steps with rows beyond the capacity"
                           : "repeats steps with rows beyond the capacity");
  return words;
}

std::vector<Variant> pipelines(const Variant& job) {
  std::vector<Variant> variants = {job};
  const Parallelism& own = job.config.parallelism;
  if (!own.has_pipeline() || !own.pipeline_parallel_schedule_csv.empty()) return variants;
  const std::int64_t layers = layer_count(job.config) + own.pipeline_parallel_first_stage_less_layers +
                              own.pipeline_parallel_last_stage_less_layers;
  for (const pipeline::Schedule& schedule : pipeline::schedules())
    for (std::int32_t per_rank = 1; per_rank <= kMaxStagesPerRank; per_rank *= 2) {
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

Variant with_bf16_moments(Variant job) {
  if (job.config.training.dtype == Precision::float32)
    job.config.optimizer.implementation = OptimizerImplementation::fused_opt_states_bf16;
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

std::vector<Variant> memory_policies(const Variant& job) {
  std::vector<Variant> variants;
  for (const MemoryPolicy policy : kPolicies)
    if (policy != kOffloading || !job.config.parallelism.has_pipeline())
      variants.push_back(with_policy(job, policy));
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

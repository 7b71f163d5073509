// What follows from several keys, computed in one place, so that a check before the run and the run itself
// cannot disagree. Rules that hold for given degrees return what is broken instead of throwing: the checker
// of a configuration asks with the degrees that are known, and the layout asks again when the number of ranks
// is. The device is chosen by a pure function of what was asked, what was built and how many GPUs there are.
#include "config/derived.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/float8.h"
#include "config/pipeline_layout.h"
#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/machine/gpus.h"

namespace rondo {

namespace {

constexpr const char* kContext = "parallelism.context_parallel_degree";

// The rule that ranks break which exchange heads for tokens, or "".
std::string broken_exchange(const SharedSizes& shared, const ShareDegrees& degrees) {
  const auto size = [&](const char* name) -> std::int64_t {
    for (const SharedSize& one : shared.layers)
      if (one.key == name) return one.size;
    return 0;
  };
  const std::int64_t queries = size("n_heads") / degrees.tensor, n = degrees.context;
  const std::int64_t of_keys = size("n_kv_heads") > 0 ? size("n_kv_heads") / degrees.tensor : queries;
  // Fewer heads of keys than ranks are sent to several.
  if (queries % n == 0 && (of_keys % n == 0 || (of_keys > 0 && n % of_keys == 0))) return "";
  return fmt::format(
      "{} = {} with context_parallel_rotate_method = \"alltoall\" must divide the {} heads of queries on a "
      "rank, and divide the {} of keys or be a multiple of them; choose such a degree, or \"allgather\"",
      kContext, n, queries, of_keys);
}

}  // namespace

std::vector<std::pair<const char*, std::int64_t>> named_degrees(const Mesh& mesh) {
  return {{"pipeline_parallel", mesh.degree(Axis::pp)},
          {"data_parallel_shard", mesh.degree(Axis::dp_shard)},
          {"data_parallel_replicate", mesh.degree(Axis::dp_replicate)},
          {"context_parallel", mesh.degree(Axis::cp)},
          {"tensor_parallel", mesh.degree(Axis::tp)},
          {"expert_parallel", mesh.degree(Axis::ep)},
          {"expert_tensor_parallel", mesh.degree(Axis::etp)}};
}

ContextBalance context_balance(const Parallelism& p) {
  if (p.exchanges_heads()) return ContextBalance::none;
  switch (p.context_parallel_load_balancer) {
    case ContextLoadBalancer::headtail:
      return ContextBalance::headtail;
    case ContextLoadBalancer::documents:
    case ContextLoadBalancer::ptrr:
      return ContextBalance::documents;
    case ContextLoadBalancer::none:
      break;
  }
  return ContextBalance::none;
}

std::vector<BrokenRule> broken_shares(const JobConfig& config, const ShareDegrees& degrees) {
  const std::int64_t tensor_parallel = degrees.tensor, context_parallel = degrees.context;
  std::vector<BrokenRule> broken;
  const auto require = [&](bool holds, std::vector<std::string> keys, const std::string& rule) {
    if (!holds) broken.push_back({std::move(keys), rule});
  };
  const ModelSpec* model = find_model_spec(config.model.name);
  if (model == nullptr) return broken;
  const SharedSizes shared = model->shared(config.model.sizes);
  const auto check_sizes = [&](const std::string& key, std::int64_t ranks,
                               const std::vector<SharedSize>& sizes) {
    for (const auto& [name, size] : sizes)
      require(size % ranks == 0, {key, "model." + name, "model.name"},
              fmt::format("{} = {} must divide model.{} = {}: each rank has a whole number of it", key, ranks,
                          name, size));
  };
  const std::string tensor = "parallelism.tensor_parallel_degree",
                    expert = "parallelism.expert_parallel_degree",
                    cut = "parallelism.expert_tensor_parallel_degree";
  const std::int64_t expert_parallel = config.parallelism.expert_parallel_degree;
  check_sizes(tensor, tensor_parallel, shared.layers);
  check_sizes(expert, expert_parallel, shared.experts);
  const auto need_experts = [&](const std::string& key, std::int64_t degree) {
    require(degree == 1 || !shared.experts.empty(), {key, "model.name"},
            fmt::format("{} = {} needs a model with experts, and {} has none; set it to 1", key, degree,
                        config.model.name));
  };
  need_experts(expert, expert_parallel);
  const std::int64_t sharers = config.parallelism.expert_tensor_parallel_degree;
  require(sharers == 1 || sharers == tensor_parallel, {cut, tensor},
          fmt::format("{} = {} must be 1, or {} = {}", cut, sharers, tensor, tensor_parallel));
  need_experts(cut, sharers);
  check_sizes(cut, sharers, shared.expert_widths);
  const auto check_tokens = [&](const std::string& section, const std::string& batch_key, std::int64_t batch,
                                std::int64_t length) {
    const ContextBalance balance = context_balance(config.parallelism);
    const std::int64_t unit = context_unit(balance, context_parallel, length),
                       next = (length / unit + 1) * unit;
    require(length % unit == 0,
            {kContext, section + ".seq_len", "parallelism.context_parallel_load_balancer"},
            fmt::format("{} = {} with this load balancer needs a {}.seq_len that is a multiple of {}, and {} "
                        "is none; the next is {}",
                        kContext, context_parallel, section, unit, length, next));
    if (length % context_parallel != 0) return;
    const std::int64_t own = length / context_parallel;
    require(
        batch * own % tensor_parallel == 0, {tensor, batch_key, section + ".seq_len"},
        fmt::format(
            "{} = {} must divide {} * seq_len{} = {} * {} = {}: the ranks that share the layers share the "
            "tokens",
            tensor, tensor_parallel, batch_key,
            context_parallel > 1 ? fmt::format(" / {}", context_parallel) : "", batch, own, batch * own));
  };
  if (config.parallelism.exchanges_heads() && context_parallel > 1) {
    const std::string rule = broken_exchange(shared, degrees);
    require(rule.empty(), {kContext, "parallelism.context_parallel_rotate_method", "model.name"}, rule);
  }
  check_tokens("training",
               config.parallelism.has_pipeline() ? "parallelism.pipeline_parallel_microbatch_size"
                                                 : "training.local_batch_size",
               microbatch_size(config), config.training.seq_len);
  if (config.validation.enable)
    check_tokens("validation", "validation.local_batch_size", config.validation.local_batch_size,
                 config.validation.seq_len);
  const std::vector<BrokenRule> of_float8 = broken_float8(config, degrees);
  broken.insert(broken.end(), of_float8.begin(), of_float8.end());
  return broken;
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

Layout resolve_layout(const JobConfig& config, std::int64_t world_size) {
  const Parallelism& degrees = config.parallelism;
  Layout layout;
  layout.mesh = Mesh(
      world_size,
      {degrees.pipeline_parallel_degree, degrees.data_parallel_replicate_degree,
       degrees.data_parallel_shard_degree, degrees.context_parallel_degree, degrees.tensor_parallel_degree},
      degrees.expert_parallel_degree, degrees.expert_tensor_parallel_degree);
  const std::vector<BrokenRule> broken =
      broken_shares(config, {layout.mesh.degree(Axis::tp), layout.mesh.degree(Axis::cp)});
  if (!broken.empty()) throw Error(ExitCode::config, broken[0].rule);
  const std::int64_t local = config.training.local_batch_size;
  const std::int64_t unit = local * layout.data_parallel();
  const std::int64_t global = config.training.global_batch_size;
  layout.global_batch_size = global == -1 ? unit : global;
  if (layout.global_batch_size % unit != 0)
    throw Error(
        ExitCode::config,
        fmt::format("training.global_batch_size = {} must be a multiple of training.local_batch_size * "
                    "data-parallel degree = {} * {} = {}; the nearest is {}",
                    global, local, layout.data_parallel(), unit,
                    std::max<std::int64_t>(unit, (global + unit / 2) / unit * unit)));
  layout.microbatch_size = microbatch_size(config);
  layout.microbatches = layout.global_batch_size / (layout.microbatch_size * layout.data_parallel());
  const std::vector<BrokenRule> of_pipeline = broken_pipeline(config, layout.microbatches);
  if (!of_pipeline.empty()) throw Error(ExitCode::config, of_pipeline[0].rule);
  return layout;
}

Precision compute_dtype(const JobConfig& config) {
  const Training& t = config.training;
  return t.dtype == Precision::float64 ? t.dtype : t.mixed_precision_param;
}

Precision moment_dtype(const JobConfig& config) {
  const bool narrow = config.optimizer.implementation == OptimizerImplementation::fused_opt_states_bf16;
  return narrow && config.training.dtype == Precision::float32 ? Precision::bfloat16 : config.training.dtype;
}

Precision reduce_dtype(const JobConfig& config) {
  const Training& t = config.training;
  return t.dtype == Precision::float64 ? t.dtype : t.mixed_precision_reduce;
}

ScheduleSteps schedule_steps(const JobConfig& config) {
  const std::int64_t total = config.lr_scheduler.total_steps.value_or(config.training.steps);
  const std::int64_t warmup = std::min(config.lr_scheduler.warmup_steps, total);
  const std::int64_t left = total - warmup;
  const double ratio = config.lr_scheduler.decay_ratio.value_or(1.0);
  // Halves to even, as Python rounds.
  const auto decay =
      std::min(static_cast<std::int64_t>(std::nearbyint(static_cast<double>(total) * ratio)), left);
  return {warmup, left - decay, decay};
}

MemoryPolicy policy_of_mode(ActivationCheckpointMode mode) {
  switch (mode) {
    case ActivationCheckpointMode::none:
      return MemoryPolicy::none;
    case ActivationCheckpointMode::selective:
      return MemoryPolicy::selective;
    case ActivationCheckpointMode::full:
      return MemoryPolicy::full;
    case ActivationCheckpointMode::memory_budget:
      return MemoryPolicy::budget;
  }
  return MemoryPolicy::none;
}

MemoryPolicy memory_policy(const JobConfig& config) {
  return config.compile.memory_policy.value_or(policy_of_mode(config.activation_checkpoint.mode));
}

TargetDevice device_of(const JobConfig& config) {
  return choose_device(config.job.device, RONDO_BUILT_WITH_CUDA, visible_gpus());
}

TargetDevice choose_device(std::optional<TargetDevice> requested, bool built_with_cuda, int gpus) {
  if (!requested) return built_with_cuda && gpus > 0 ? TargetDevice::cuda : TargetDevice::cpu;
  if (requested == TargetDevice::cuda && !built_with_cuda)
    throw Error(ExitCode::environment,
                "job.device = \"cuda\": this program was built without CUDA; build the preset cuda "
                "(scripts/build.sh cuda), or set job.device = \"cpu\"");
  if (requested == TargetDevice::cuda && gpus == 0)
    throw Error(
        ExitCode::environment,
        "job.device = \"cuda\": this machine shows no GPU (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES is "
        "empty); `rondo doctor` says what is there");
  return *requested;
}

ReshardAfterForward reshard_after_forward(const JobConfig& config) {
  const Parallelism& p = config.parallelism;
  const bool by_default = p.fsdp_reshard_after_forward == ReshardAfterForward::all_but_last;
  return p.has_pipeline() && by_default ? ReshardAfterForward::never : p.fsdp_reshard_after_forward;
}

CompileOptions compile_options(const JobConfig& config, TargetDevice device) {
  const Compile& c = config.compile;
  CompileOptions options;
  options.device = device;
  options.passes = c.passes;
  options.disable_passes = c.disable_passes;
  options.numerics = c.numerics;
  options.memory_policy = memory_policy(config);
  options.memory_budget = config.activation_checkpoint.memory_budget;
  options.memory_budget_gib = c.memory_budget_gib;
  options.full_recompute_save_ops = c.full_recompute_save_ops;
  options.recompute_all_to_all = c.full_recompute_all_to_all;
  options.is_stage = config.parallelism.has_pipeline();
  options.loss_chunks = c.loss_chunks;
  options.cpu_offload_budget_gib = c.cpu_offload_budget_gb;
  options.cpu_offload_defer_n_layers = c.cpu_offload_defer_n_layers;
  options.cpu_offload_prefetch_n_layers = c.cpu_offload_prefetch_n_layers;
  if (c.enable_fsdp_ag_rs_overlap) options.gather_group_suffix = kGatherGroupSuffix;
  options.reshard_after_forward = reshard_after_forward(config);
  return options;
}

namespace {

constexpr const char* kText = "text";

// `dataset`, `path`: of the section. "" where nobody said where the data set lies.
std::string given_path(const JobConfig& config, const std::string& dataset, const std::string& path) {
  if (!path.empty()) return path;
  for (const std::string& entry : config.training.datasets)
    if (entry.starts_with(dataset + "=")) return entry.substr(dataset.size() + 1);
  return dataset == kText ? "data/corpus" : "";
}

std::string usual_path(const std::string& dataset) { return "data/" + dataset; }

std::string path_of(const JobConfig& config, const std::string& dataset, const std::string& path) {
  const std::string given = given_path(config, dataset, path);
  return given.empty() ? usual_path(dataset) : given;
}

void require_dataset(const JobConfig& config, const std::string& section, const std::string& dataset,
                     const std::string& path) {
  if (!given_path(config, dataset, path).empty() || std::filesystem::exists(usual_path(dataset))) return;
  throw Error(
      ExitCode::data,
      fmt::format(
          "{0}.dataset = \"{1}\": there is no {2}, and nothing is downloaded. Make a token file of its "
          "text or JSONL files: `rondo data tokenize --tokenizer DIR --input FILES --output {2}.tokens`; "
          "then say where it is: training.datasets = [\"{1}={2}.tokens\"], or {0}.dataset_path",
          section, dataset, usual_path(dataset)));
}

}  // namespace

std::string training_path(const JobConfig& config) {
  return path_of(config, config.training.dataset, config.training.dataset_path);
}

std::string validation_path(const JobConfig& config) {
  const Validation& v = config.validation;
  return v.dataset_path.empty() && v.dataset == kText ? "" : path_of(config, v.dataset, v.dataset_path);
}

std::vector<std::string> dataset_names(const JobConfig& config) {
  std::vector<std::string> names = {kText, "c4", "c4_test", "c4_validation"};
  for (const std::string& entry : config.training.datasets) names.push_back(entry.substr(0, entry.find('=')));
  return names;
}

void require_datasets(const JobConfig& config) {
  require_dataset(config, "training", config.training.dataset, config.training.dataset_path);
  const Validation& v = config.validation;
  if (v.enable) require_dataset(config, "validation", v.dataset, v.dataset_path);
}

std::int64_t validation_steps(const JobConfig& config, const Layout& layout, std::int64_t samples) {
  const Validation& v = config.validation;
  return v.steps != -1 ? v.steps
                       : std::max<std::int64_t>(1, samples / (v.local_batch_size * layout.data_parallel()));
}

std::string tokenizer_name(const JobConfig& config) {
  if (config.training.tokenizer != "auto") return config.training.tokenizer;
  return config.model.hf_assets_path.empty() ? "bytes" : config.model.hf_assets_path;
}

std::filesystem::path checkpoint_root(const JobConfig& config) {
  return std::filesystem::path(config.job.dump_folder) / config.checkpoint.folder;
}

std::string initial_hugging_face_folder(const JobConfig& config) {
  const std::string& path = config.checkpoint.initial_load_path;
  return path.empty() ? config.model.hf_assets_path : path;
}

}  // namespace rondo

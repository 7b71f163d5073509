// What follows from several keys, computed in one place, so that a check before the run and the run itself
// cannot disagree. Rules that hold for given degrees return what is broken instead of throwing: the checker
// of a configuration asks with the degrees that are known, and the layout asks again when the number of ranks
// is. The device is chosen by a pure function of what was asked, what was built and how many GPUs there are.
#include "trainer/config/derived.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/parts/model_spec.h"
#include "parallel/launch/gpus.h"
#include "support/error.h"
#include "support/text/wildcard.h"

namespace rondo {

std::vector<BrokenShare> broken_shares(const JobConfig& config, std::int64_t tensor_parallel) {
  std::vector<BrokenShare> broken;
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
                    expert = "parallelism.expert_parallel_degree";
  const std::int64_t expert_parallel = config.parallelism.expert_parallel_degree;
  check_sizes(tensor, tensor_parallel, shared.layers);
  check_sizes(expert, expert_parallel, shared.experts);
  require(expert_parallel == 1 || !shared.experts.empty(), {expert, "model.name"},
          fmt::format("{} = {} needs a model with experts, and {} has none; set it to 1", expert,
                      expert_parallel, config.model.name));
  const auto check_tokens = [&](const std::string& section, std::int64_t batch, std::int64_t length) {
    require(batch * length % tensor_parallel == 0,
            {tensor, section + ".local_batch_size", section + ".seq_len"},
            fmt::format(
                "{} = {} must divide {}.local_batch_size * seq_len = {} * {} = {}: the ranks that share the "
                "layers share the tokens",
                tensor, tensor_parallel, section, batch, length, batch * length));
  };
  check_tokens("training", config.training.local_batch_size, config.training.seq_len);
  if (config.validation.enable)
    check_tokens("validation", config.validation.local_batch_size, config.validation.seq_len);
  return broken;
}

Layout resolve_layout(const JobConfig& config, std::int64_t world_size) {
  const Parallelism& degrees = config.parallelism;
  Layout layout;
  layout.mesh = Mesh(
      world_size,
      {degrees.pipeline_parallel_degree, degrees.data_parallel_replicate_degree,
       degrees.data_parallel_shard_degree, degrees.context_parallel_degree, degrees.tensor_parallel_degree},
      degrees.expert_parallel_degree);
  const std::vector<BrokenShare> broken = broken_shares(config, layout.mesh.degree(Axis::tp));
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
  layout.microbatches = layout.global_batch_size / unit;
  return layout;
}

ScheduleSteps schedule_steps(const JobConfig& config) {
  const std::int64_t total = config.lr_scheduler.total_steps.value_or(config.training.steps);
  const std::int64_t warmup = config.lr_scheduler.warmup_steps;
  const std::int64_t left = total - warmup;
  const double ratio = config.lr_scheduler.decay_ratio.value_or(1.0);
  const auto decay =
      std::min(static_cast<std::int64_t>(std::llround(static_cast<double>(total) * ratio)), left);
  return {warmup, left - decay, decay};
}

std::string policy_of_mode(const std::string& mode) {
  if (mode == "selective") return "default";
  return mode == "memory_budget" ? "budget" : mode;
}

std::string memory_policy(const JobConfig& config) {
  const std::string& policy = config.compile.memory_policy;
  return policy == "auto" ? policy_of_mode(config.activation_checkpoint.mode) : policy;
}

std::string device_of(const JobConfig& config) {
  return choose_device(config.job.device, RONDO_BUILT_WITH_CUDA, launch::visible_gpus());
}

std::string choose_device(const std::string& asked, bool built_with_cuda, int gpus) {
  if (asked == "auto") return built_with_cuda && gpus > 0 ? "cuda" : "cpu";
  if (asked == "cuda" && !built_with_cuda)
    throw Error(ExitCode::environment,
                "job.device = \"cuda\": this program was built without CUDA; build the preset cuda "
                "(scripts/build.sh cuda), or set job.device = \"cpu\"");
  if (asked == "cuda" && gpus == 0)
    throw Error(
        ExitCode::environment,
        "job.device = \"cuda\": this machine shows no GPU (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES is "
        "empty); `rondo doctor` says what is there");
  return asked;
}

CompileOptions compile_options(const JobConfig& config, const std::string& device) {
  const Compile& c = config.compile;
  CompileOptions options;
  options.device = option_named<TargetDevice>(device);
  options.passes = c.passes;
  options.disable_passes = c.disable_passes;
  options.numerics = option_named<Numerics>(c.numerics);
  options.memory_policy = option_named<MemoryPolicy>(memory_policy(config));
  options.memory_budget = config.activation_checkpoint.memory_budget;
  options.memory_budget_gib = c.memory_budget_gib;
  options.full_recompute_save_ops = c.full_recompute_save_ops;
  options.loss_chunks = c.loss_chunks;
  options.cpu_offload_budget_gib = c.cpu_offload_budget_gb;
  options.cpu_offload_defer_n_layers = c.cpu_offload_defer_n_layers;
  options.cpu_offload_prefetch_n_layers = c.cpu_offload_prefetch_n_layers;
  if (c.enable_fsdp_ag_rs_overlap) options.gather_group_suffix = kGatherGroupSuffix;
  options.reshard_after_forward =
      option_named<ReshardAfterForward>(config.parallelism.fsdp_reshard_after_forward);
  return options;
}

std::string bucket_of(const JobConfig& config, const std::string& parameter, const std::string& of_model) {
  for (const std::string& bucket : config.compile.fsdp_buckets)
    for (std::size_t begin = 0; begin < bucket.size();) {
      const std::size_t end = std::min(bucket.find('|', begin), bucket.size());
      if (matches_wildcard(std::string_view(bucket).substr(begin, end - begin), parameter)) return bucket;
      begin = end + 1;
    }
  return of_model;
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

// A rule is a condition on keys. It is skipped if one of its keys was refused before, so one
// mistake is not reported twice. The blame goes to a flag before a file, and to a file before a
// default: the flag is what the user just typed. These rules hold for any number of ranks;
// resolve_layout checks the others.
#include "config/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/hugging_face/config.h"
#include "compiler/passes/pipeline.h"
#include "config/derived/batch.h"
#include "config/derived/compile_options.h"
#include "config/derived/divisibility.h"
#include "config/derived/dtypes.h"
#include "config/derived/float8.h"
#include "config/derived/matmul_table.h"
#include "config/derived/optimizer.h"
#include "config/derived/paths.h"
#include "config/derived/pipeline_layout.h"
#include "config/derived/state_on_host.h"
#include "config/dump.h"
#include "config/schema/bucket_patterns.h"
#include "config/schema/parameter_groups.h"
#include "datasets/documents/files.h"
#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

using Keys = std::vector<std::string>;

class Rules {
 public:
  Rules(const JobConfig& config, const Origins& origins, Problems& problems)
      : config_(config), origins_(origins), problems_(problems) {}

  // Blames the first of `keys` that came from a flag, else from the file, else the first.
  void require(bool holds, const Keys& keys, const std::string& rule) {
    const auto broken = [&](const std::string& key) { return origins_.broken.contains(key); };
    if (holds || std::any_of(keys.begin(), keys.end(), broken)) return;
    const Assignment* blamed = nullptr;
    for (const std::string& key : keys) {
      const auto it = origins_.assigned.find(key);
      if (it == origins_.assigned.end()) continue;
      if (blamed == nullptr || (it->second.from_flag && !blamed->from_flag)) blamed = &it->second;
    }
    if (blamed != nullptr)
      problems_.add(blamed->place, blamed->shown + ": " + rule, keys[0]);
    else
      problems_.add("default", fmt::format("{} = {}: {}", keys[0], to_toml(value_at(config_, keys[0])), rule),
                    keys[0]);
  }

  std::int64_t model_size(const std::string& name) const {
    const auto it = config_.model.sizes.find(name);
    return it == config_.model.sizes.end() ? 0 : std::get<std::int64_t>(it->second);
  }

 private:
  const JobConfig& config_;
  const Origins& origins_;
  Problems& problems_;
};

void check_model(Rules& rules, const JobConfig& config) {
  const ModelSpec* model = find_model_spec(config.model.name);
  if (model == nullptr) return;  // reported where the name was read
  for (const SizeProblem& problem : model->problems(config.model.sizes)) {
    Keys keys;
    for (const std::string& name : problem.keys) keys.push_back("model." + name);
    rules.require(false, keys, problem.rule);
  }
  constexpr std::int64_t kByteIds = 258;
  const std::int64_t vocab = rules.model_size("vocab_size");
  rules.require(
      vocab >= kByteIds || tokenizer_name(config) != "bytes",
      {"model.vocab_size", "training.tokenizer", "model.name"},
      fmt::format("model.vocab_size = {} must be at least {}: the byte tokenizer has 256 bytes, a begin "
                  "and an end",
                  vocab, kByteIds));
}

void check_lengths(Rules& rules, const JobConfig& config) {
  const std::int64_t longest = rules.model_size("max_seq_len");
  const auto check = [&](const std::string& key, std::int64_t seq_len) {
    rules.require(seq_len <= longest, {key, "model.max_seq_len", "model.name"},
                  fmt::format("{} = {} must be at most model.max_seq_len = {}", key, seq_len, longest));
  };
  check("training.seq_len", config.training.seq_len);
  if (config.validation.enable) check("validation.seq_len", config.validation.seq_len);
}

// Checks what holds for any number of ranks; resolve_layout checks the rest.
void check_batch(Rules& rules, const JobConfig& config) {
  const std::int64_t local = config.training.local_batch_size, global = config.training.global_batch_size;
  const std::int64_t microbatch = microbatch_size(config), overlapped = overlapped_microbatches(config);
  rules.require(
      local % overlapped == 0,
      {"parallelism.overlapped_microbatches", "compile.ep_overlap.enabled", "training.local_batch_size"},
      fmt::format("training.local_batch_size = {} must be a multiple of the overlapped "
                  "microbatches, {}: each has whole sequences",
                  local, overlapped));
  rules.require(
      !config.parallelism.has_pipeline() ||
          (config.parallelism.overlapped_microbatches == 1 && !config.ep_overlap.enabled),
      {"parallelism.overlapped_microbatches", "compile.ep_overlap.enabled",
       "parallelism.pipeline_parallel_degree"},
      "overlapped microbatches are of runs without a pipeline; in a pipeline the schedule DualPipeV "
      "overlaps them (parallelism.pipeline_parallel_schedule)");
  rules.require(local % microbatch == 0 || overlapped > 1,
                {"parallelism.pipeline_parallel_microbatch_size", "training.local_batch_size"},
                fmt::format("parallelism.pipeline_parallel_microbatch_size = {} must divide "
                            "training.local_batch_size = {}: a microbatch has whole sequences",
                            microbatch, local));
  if (global == -1) return;
  const Keys keys = {"training.global_batch_size", "training.local_batch_size",
                     "parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree"};
  const std::int64_t shard = config.parallelism.data_parallel_shard_degree;
  const std::int64_t replicate = config.parallelism.data_parallel_replicate_degree;
  if (shard == -1 || replicate == -1)
    rules.require(
        global % local == 0, keys,
        fmt::format("training.global_batch_size = {} must be a multiple of training.local_batch_size = "
                    "{} times the data-parallel degree",
                    global, local));
  else
    rules.require(
        global % (local * shard * replicate) == 0, keys,
        fmt::format("training.global_batch_size = {} must be a multiple of training.local_batch_size * "
                    "data-parallel degree = {} * {} = {}",
                    global, local, shard * replicate, local * shard * replicate));
}

// Mesh checks the product of the degrees when the number of ranks is known.
void check_degrees(Rules& rules, const JobConfig& config) {
  const Parallelism& p = config.parallelism;
  Keys inferred;
  for (const auto& [axis, degree] : kDegreesOfDense)
    if (p.*degree == -1) inferred.push_back(fmt::format("parallelism.{}", degree_key(axis)));
  rules.require(
      inferred.size() < 2, inferred,
      fmt::format("{} are both -1, but only one degree can take the ranks that are left; set the other",
                  fmt::join(inferred, " and ")));
  // resolve_layout checks a degree of -1 when the number of ranks is known.
  const auto known = [](std::int64_t degree) { return std::max<std::int64_t>(1, degree); };
  const ShareDegrees degrees = {known(p.tensor_parallel_degree), known(p.context_parallel_degree)};
  for (const BrokenRule& broken : broken_shares(config, degrees))
    rules.require(false, broken.keys, broken.rule);
}

void check_pipeline(Rules& rules, const JobConfig& config) {
  for (const BrokenRule& broken : broken_pipeline(config, known_microbatches(config)))
    rules.require(false, broken.keys, broken.rule);
}

void check_datasets(Rules& rules, const JobConfig& config) {
  const std::vector<std::string> known = dataset_names(config);
  const auto check = [&](const std::string& section, const std::string& name, const std::string& path) {
    rules.require(
        !path.empty() || std::find(known.begin(), known.end(), name) != known.end(),
        {section + ".dataset", "training.datasets"},
        fmt::format("no such data set{}; set its path: training.datasets = [\"{}=PATH\"], or {}.dataset_path",
                    did_you_mean(name, known), name, section));
  };
  const Validation& validation = config.validation;
  check("training", config.training.dataset, config.training.dataset_path);
  if (validation.enable) check("validation", validation.dataset, validation.dataset_path);
  const std::size_t weights = config.training.dataset_weights.size();
  const std::size_t sources = split_paths(training_path(config)).size();
  rules.require(
      weights == 0 || weights == sources, {"training.dataset_weights", "training.dataset_path"},
      fmt::format("training.dataset_weights has {} numbers, but training.dataset_path names {} sources: "
                  "give one for each, or none",
                  weights, sources));
}

void check_float8(Rules& rules, const JobConfig& config, TargetDevice device) {
  const auto check = [&](const std::optional<Float8Options>& options, const std::string& emulate) {
    if (!options || options->emulate) return;
    rules.require(device != TargetDevice::cpu, {emulate, "model.converters", "job.device"},
                  "a CPU has no float8 products; set " + emulate + " = true to emulate them");
    rules.require(device == TargetDevice::cpu || compute_dtype(config) == Precision::bfloat16,
                  {"training.mixed_precision_param", "model.converters"},
                  "float8 products give bfloat16; set training.mixed_precision_param = \"bfloat16\", or " +
                      emulate + " = true");
  };
  check(float8_options(config), float8_section(config) + ".emulate");
  check(float8_expert_options(config), float8_expert_section(config) + ".emulate");
}

void check_features(Rules& rules, const JobConfig& config, TargetDevice device) {
  rules.require(
      config.training.dtype != Precision::float64 || device == TargetDevice::cpu,
      {"training.dtype", "job.device"},
      "float64 is for the CPU only in this version; set float32 or bfloat16, or set job.device = \"cpu\"");
  const Validation& validation = config.validation;
  rules.require(!validation.enable || !validation_path(config).empty() || validation.holdout_fraction > 0,
                {"validation.holdout_fraction", "validation.enable", "validation.dataset_path"},
                "validation needs data: validation.holdout_fraction above 0, or validation.dataset_path");
  const Parallelism& p = config.parallelism;
  rules.require(p.expert_overflow == Parallelism().expert_overflow || p.expert_capacity_factor > 0,
                {"parallelism.expert_overflow", "parallelism.expert_capacity_factor"},
                "needs parallelism.expert_capacity_factor above 0; with 0 there is capacity for all rows");
  rules.require(p.expert_parallel_combine == Parallelism().expert_parallel_combine ||
                    p.expert_parallel_comm_backend == ExpertExchange::fixed_size ||
                    p.expert_tensor_parallel_degree > 1,
                {"parallelism.expert_parallel_combine", "parallelism.expert_parallel_comm_backend"},
                "needs expert_parallel_comm_backend = \"static\"; with \"standard\" no sum is divided");
}

void check_async_tensor_parallel(Rules& rules, const JobConfig& config) {
  const std::string key = "parallelism.enable_async_tensor_parallel";
  const std::int64_t pieces = config.compile.tensor_parallel_pieces;
  if (!config.parallelism.enable_async_tensor_parallel) {
    rules.require(pieces == 0, {"compile.tensor_parallel_pieces", key}, "needs " + key + " = true");
    return;
  }
  rules.require(config.parallelism.tensor_parallel_degree != 1, {key, "parallelism.tensor_parallel_degree"},
                "needs ranks that share layers: set parallelism.tensor_parallel_degree to at least 2");
  rules.require(config.compile.enable, {key, "compile.enable"},
                "needs a recorded graph: set compile.enable = true");
  rules.require(pieces != 1, {"compile.tensor_parallel_pieces"},
                "must be at least 2, or 0 for the number that is planned to be the fastest");
}

void check_updates(Rules& rules, const JobConfig& config) {
  for (const auto& broken_rules : {broken_early_step(config, known_microbatches(config)),
                                   broken_state_on_host(config), broken_muon(config)})
    for (const BrokenRule& broken : broken_rules) rules.require(false, broken.keys, broken.rule);
}

// Checks compile.memory_policy against torchtitan's activation_checkpoint.mode: both set the same
// option.
void check_memory_policy(Rules& rules, const JobConfig& config) {
  const Compile& compile = config.compile;
  const ActivationCheckpointMode mode = config.activation_checkpoint.mode;
  if (!compile.enable) {
    const char* rule =
        "needs a recorded graph; an eager run (compile.enable = false) supports activation_checkpoint.mode "
        "none, selective and full";
    rules.require(mode != ActivationCheckpointMode::memory_budget,
                  {"activation_checkpoint.mode", "compile.enable"}, rule);
    rules.require(!compile.memory_policy || name_of(*compile.memory_policy) == name_of(mode),
                  {"compile.memory_policy", "compile.enable"}, rule);
    return;
  }
  rules.require(!compile.memory_policy || mode == ActivationCheckpointMode::none ||
                    compile.memory_policy == policy_of_mode(mode),
                {"compile.memory_policy", "activation_checkpoint.mode"},
                fmt::format("activation_checkpoint.mode = \"{}\" means compile.memory_policy = \"{}\"; they "
                            "disagree; set only one",
                            name_of(mode), name_of(policy_of_mode(mode))));
  const MemoryPolicy policy = memory_policy(config);
  const auto needs = [&](bool is_set, const std::string& key, MemoryPolicy needed) {
    rules.require(
        !is_set || policy == needed, {"compile." + key, "compile.memory_policy"},
        fmt::format("needs compile.memory_policy = \"{}\"; it is \"{}\"", name_of(needed), name_of(policy)));
  };
  needs(compile.memory_budget_gib != 0, "memory_budget_gib", MemoryPolicy::budget);
  needs(!compile.full_recompute_save_ops.empty(), "full_recompute_save_ops", MemoryPolicy::full);
  needs(compile.full_recompute_all_to_all, "full_recompute_all_to_all", MemoryPolicy::full);
  rules.require(compile.loss_chunks == Compile().loss_chunks || compile.numerics == Numerics::rounds,
                {"compile.loss_chunks", "compile.numerics"},
                "needs compile.numerics = \"rounds\", because sums over chunks have another order");
}

void check_matmul_algorithms(Rules& rules, const JobConfig& config, TargetDevice device) {
  const Compile& compile = config.compile;
  if (compile.matmul_algorithms.empty()) return;
  rules.require(compile.enable, {"compile.matmul_algorithms", "compile.enable"},
                "compile.matmul_algorithms needs compile.enable = true; eager steps use LibTorch's products");
  rules.require(compile.numerics == Numerics::rounds, {"compile.matmul_algorithms", "compile.numerics"},
                "compile.matmul_algorithms needs compile.numerics = \"rounds\", because algorithms add in "
                "different orders");
  rules.require(device == TargetDevice::cuda, {"compile.matmul_algorithms", "job.device"},
                "compile.matmul_algorithms is for GPUs, but the run is on the CPU; remove it");
  try {
    matmul_table(config);
  } catch (const Error& error) {
    rules.require(false, {"compile.matmul_algorithms"}, error.what());
  }
}

void check_attention_kernel(Rules& rules, const JobConfig& config, TargetDevice device) {
  rules.require(config.compile.attention == Compile().attention || device == TargetDevice::cuda,
                {"compile.attention"}, "is for GPUs, but the run is on the CPU; remove it");
  rules.require(
      config.compile.attention != AttentionKernel::cudnn || !config.debug.deterministic,
      {"compile.attention"},
      "conflicts with debug.deterministic = true, because its backward adds in any order; set \"flash\"");
}

void check_checkpoint(Rules& rules, const JobConfig& config) {
  const Checkpoint& c = config.checkpoint;
  const auto needs_saving = [&](bool is_set, const std::string& key) {
    rules.require(!is_set || c.enable, {"checkpoint." + key, "checkpoint.enable"},
                  fmt::format("checkpoint.{} needs checkpoint.enable = true", key));
  };
  needs_saving(!c.initial_load_path.empty(), "initial_load_path");
  needs_saving(c.initial_load_in_hf, "initial_load_in_hf");
  rules.require(!c.initial_load_in_hf_quantized || c.initial_load_in_hf,
                {"checkpoint.initial_load_in_hf_quantized", "checkpoint.initial_load_in_hf"},
                "checkpoint.initial_load_in_hf_quantized needs checkpoint.initial_load_in_hf = true");
  const std::string no_form = c.enable && c.last_save_in_hf
                                  ? hugging_face::why_not_exported(config.model.name, config.model.sizes)
                                  : "";
  rules.require(no_form.empty(), {"checkpoint.last_save_in_hf", "model.flavor", "model.name"}, no_form);
  needs_saving(c.create_seed_checkpoint, "create_seed_checkpoint");
  needs_saving(c.load_only, "load_only");
  rules.require(!c.initial_load_in_hf || !initial_hugging_face_folder(config).empty(),
                {"checkpoint.initial_load_in_hf", "checkpoint.initial_load_path"},
                "needs the folder to load from: checkpoint.initial_load_path, or model.hf_assets_path");
  rules.require(!c.initial_load_in_hf || c.initial_load_model_only,
                {"checkpoint.initial_load_model_only", "checkpoint.initial_load_in_hf"},
                "a Hugging Face folder holds weights only; leave checkpoint.initial_load_model_only = true");
  rules.require(!(c.create_seed_checkpoint && c.load_only),
                {"checkpoint.create_seed_checkpoint", "checkpoint.load_only"},
                "checkpoint.create_seed_checkpoint saves, and checkpoint.load_only forbids it");
}

void check_profiling(Rules& rules, const JobConfig& config) {
  const Profiling& p = config.profiling;
  rules.require(!p.enable_profiling || p.profiler_warmup + p.profiler_active <= p.profile_freq,
                {"profiling.profile_freq", "profiling.profiler_warmup", "profiling.profiler_active"},
                fmt::format("profiling.profiler_warmup + profiling.profiler_active = {} + {} must be at most "
                            "profiling.profile_freq = {}",
                            p.profiler_warmup, p.profiler_active, p.profile_freq));
}

// Reports names that match no parameter.
void check_names_of_parameters(Rules& rules, const JobConfig& config) {
  const ModelSpec* model = find_model_spec(config.model.name);
  const bool named = !config.compile.fsdp_buckets.empty() || !config.optimizer.parameter_groups.empty();
  if (model == nullptr || !named) return;
  const std::vector<ParameterRule> parameters = model->parameters(config.model.sizes);
  const auto check = [&](const char* key, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      rules.require(std::any_of(parameters.begin(), parameters.end(),
                                [&](const ParameterRule& rule) { return names_parameter(name, rule.name); }),
                    {key, "model.flavor", "model.name"},
                    fmt::format("\"{}\" matches no parameter of the model, which has {} to {}, such as {}",
                                name, parameters.front().name, parameters.back().name,
                                parameters[parameters.size() / 2].name));
  };
  for (const Bucket& bucket : read_buckets(config.compile.fsdp_buckets))
    check("compile.fsdp_buckets", bucket.names);
  for (const ParameterGroup& group : read_parameter_groups(config.optimizer.parameter_groups))
    check("optimizer.parameter_groups", group.names);
}

void check_time_limit(Rules& rules, const Job& job) {
  rules.require(
      job.time_limit_seconds == 0 || job.time_limit_seconds > job.time_margin_seconds,
      {"job.time_limit_seconds", "job.time_margin_seconds"},
      fmt::format("must be above job.time_margin_seconds = {}, since the run saves and ends that long "
                  "before its limit; lower the margin, or raise the limit",
                  job.time_margin_seconds));
}

void check_passes(Rules& rules, const JobConfig& config, TargetDevice device) {
  if (!config.compile.enable) return;
  const ir::Selection chosen = ir::choose_passes(ir::all_passes(), compile_options(config, device));
  for (const std::string& problem : chosen.problems)
    rules.require(false, {"compile.passes", "compile.disable_passes", "compile.numerics"}, problem);
  const auto moves = [](const ir::PassInfo* pass) { return pass->name == "state_on_host"; };
  rules.require(!config.training.enable_cpu_offload || std::ranges::any_of(chosen.passes, moves),
                {"training.enable_cpu_offload", "compile.passes", "compile.disable_passes"},
                "needs the pass state_on_host: name it in compile.passes, and do not disable it");
}

}  // namespace

void check_rules(const JobConfig& config, const Origins& origins, TargetDevice device, Problems& problems) {
  Rules rules(config, origins, problems);
  check_model(rules, config);
  check_lengths(rules, config);
  check_degrees(rules, config);
  check_batch(rules, config);
  check_pipeline(rules, config);
  check_datasets(rules, config);
  check_features(rules, config, device);
  check_float8(rules, config, device);
  check_memory_policy(rules, config);
  check_async_tensor_parallel(rules, config);
  check_updates(rules, config);
  check_matmul_algorithms(rules, config, device);
  check_attention_kernel(rules, config, device);
  check_names_of_parameters(rules, config);
  check_passes(rules, config, device);
  check_checkpoint(rules, config);
  check_profiling(rules, config);
  check_time_limit(rules, config.job);
}

}  // namespace rondo

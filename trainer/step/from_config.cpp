// Translates keys of the configuration. Compiler, data and step have their own options, so that
// each can be used without a configuration. Groups are collected in a map by name, so all ranks
// create them in the same order, and axes with the same ranks share one group. Validation starts
// from the options of the training data and changes what differs, so that new options reach both.
#include "trainer/step/from_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <optional>

#include "compiler/analysis/memory_policy.h"
#include "compiler/ops/op.h"
#include "config/derived/batch.h"
#include "config/derived/compile_options.h"
#include "config/derived/dtypes.h"
#include "config/derived/float8.h"
#include "config/derived/paths.h"
#include "config/schema/bucket_patterns.h"
#include "config/schema/parameter_groups.h"
#include "config/schema/step_ranges.h"
#include "models/parts/initialize.h"
#include "models/parts/model_spec.h"
#include "parallel/groups/messages.h"
#include "support/error.h"
#include "trainer/step/float_dtypes.h"

namespace rondo {

std::vector<GroupMembers> process_groups(const JobConfig& c, const Layout& layout,
                                         const std::optional<PipelineLayout>& pipeline, int rank) {
  const Mesh& mesh = layout.mesh;
  const std::string all = mesh.group(kAllAxes).name;
  std::map<std::string, Axes> by_name;  // the same order on all ranks
  for (const Axes axes : kGroups) by_name.insert_or_assign(mesh.group(axes).name, axes);
  if (c.compile.enable && c.compile.enable_fsdp_ag_rs_overlap)
    for (const Axes axes : {kCutShardAxes, kWholeShardAxes, kCutExpertShardAxes, kWholeExpertShardAxes})
      by_name.insert_or_assign(mesh.group(axes).name + kGatherGroupSuffix, axes);
  std::vector<GroupMembers> groups;
  for (const auto& [name, axes] : by_name)
    if (name != all && mesh.degree(axes) > 1) groups.push_back({name, mesh.members(rank, axes)});
  if (!pipeline) return groups;
  const std::vector<std::int64_t> ranks = mesh.members(rank, Axis::pp);
  const std::int64_t own = mesh.coordinate(rank, Axis::pp);
  for (const auto& [from, to, messages] : pipeline->proof.edges)
    if (from == own || to == own) {
      const std::int64_t sender = ranks[static_cast<std::size_t>(from)],
                         receiver = ranks[static_cast<std::size_t>(to)];
      groups.push_back({edge_name(sender, receiver), {sender, receiver}});
    }
  return groups;
}

namespace {

// Returns what the memory policy `eager` keeps.
Kept kept_by_op(std::string_view op) {
  if (!ir::eager_policy_keeps(op)) return Kept::never;
  return ir::facts(op).of_linear ? Kept::every_second_call : Kept::always;
}

BlockCheckpoint checkpoint_of(const ActivationCheckpoint& a) {
  if (a.mode == ActivationCheckpointMode::none) return {};
  if (a.mode == ActivationCheckpointMode::full) return {.every = 1};
  if (a.selective_ac_option == "op") return {.every = 1, .keeps = &kept_by_op};
  return {.every = std::stoll(a.selective_ac_option)};
}

ContextParallelOptions context_options(const JobConfig& c, const Layout& layout) {
  const ContextBalance balance = context_balance(c.parallelism);
  return {layout.mesh.group(Axis::cp), c.parallelism.context_parallel_rotate_method,
          balance == ContextBalance::none       ? 1
          : balance == ContextBalance::headtail ? 2
                                                : 0};
}

ShardingOptions sharding_options(const JobConfig& c, const Layout& layout, std::int64_t rank) {
  const Mesh& mesh = layout.mesh;
  return {.fsdp = {.replicas = mesh.group(Axis::dp_replicate),
                   .compute_dtype = float_named(compute_dtype(c)),
                   .reduce_dtype = float_named(reduce_dtype(c)),
                   .reshard_after_forward = reshard_after_forward(c) != ReshardAfterForward::never},
          .tensor = {.group = mesh.group(Axis::tp), .rank = mesh.coordinate(rank, Axis::tp)},
          .context = context_options(c, layout),
          .experts = {.group = mesh.group(Axis::ep),
                      .rank = mesh.coordinate(rank, Axis::ep),
                      .exchange = c.parallelism.expert_parallel_comm_backend,
                      .capacity_factor = c.parallelism.expert_capacity_factor,
                      .expert_tp = mesh.group(Axis::etp),
                      .expert_tp_rank = mesh.coordinate(rank, Axis::etp),
                      .ep_and_expert_tp = mesh.group(kExpertTokenAxes),
                      .combine = c.parallelism.expert_parallel_combine}};
}

// The next three return a function that takes a parameter's name. It is empty if the configuration
// has no such setting.

decltype(TrainStepOptions::bucket) bucket_of_parameter(const JobConfig& c) {
  if (c.compile.fsdp_buckets.empty()) return {};
  return [buckets = read_buckets(c.compile.fsdp_buckets)](const std::string& parameter,
                                                          const std::string& default_bucket) {
    return bucket_of(buckets, parameter, default_bucket);
  };
}

decltype(TrainStepOptions::float8) float8_of_parameter(const JobConfig& c) {
  std::map<std::string, Float8Options> float8 = float8_parameters(c);
  if (float8.empty()) return {};
  for (auto& [parameter, options] : float8)
    if (options.recipe == Float8Recipe::nvfp4)
      options.stream = rounding_stream(static_cast<std::uint64_t>(c.debug.seed), parameter + ".gradient");
  return [float8 = std::move(float8)](const std::string& parameter) {
    const auto options = float8.find(parameter);
    return options == float8.end() ? std::nullopt : std::optional(options->second);
  };
}

decltype(TrainStepOptions::update_of) update_of_parameter(const JobConfig& c, const TrainStepOptions& o) {
  if (c.optimizer.parameter_groups.empty()) return {};
  return [groups = read_parameter_groups(c.optimizer.parameter_groups), optimizer = o.optimizer,
          muon = o.muon](const std::string& parameter) {
    ParameterUpdate update{optimizer, /*lr_factor=*/1, muon};
    const std::size_t group = group_of(groups, parameter);
    if (group == groups.size()) return update;
    update.lr_factor = groups[group].lr_factor;
    update.options.weight_decay = groups[group].weight_decay.value_or(optimizer.weight_decay);
    if (groups[group].by_adamw) update.muon.reset();
    return update;
  };
}

}  // namespace

TrainStepOptions step_options(const JobConfig& c, const Layout& layout, std::int64_t rank) {
  TrainStepOptions o;
  o.local_batch_size = layout.microbatch_size;
  o.seq_len = c.training.seq_len;
  o.microbatches = layout.microbatches;
  o.validation_batch_size = c.validation.enable ? c.validation.local_batch_size : 1;
  o.validation_seq_len = c.validation.enable ? c.validation.seq_len : 1;
  o.document_attention = c.training.document_attention;
  o.loss_chunks = loss_chunks(c);
  if (!c.compile.enable) o.checkpoint = checkpoint_of(c.activation_checkpoint);
  o.bucket = bucket_of_parameter(c);
  o.max_norm = c.training.max_norm;
  o.state_dtype = float_named(c.training.dtype);
  o.moment_dtype = float_named(moment_dtype(c));
  if (rounds_stochastically(c)) o.rounding_seed = static_cast<std::uint64_t>(c.debug.seed);
  o.mesh = layout.mesh;
  o.rank = rank;
  o.sharding = sharding_options(c, layout, rank);
  o.gradient_sync = c.parallelism.fsdp_gradient_sync;
  o.early_step_in_backward = c.optimizer.early_step_in_backward;
  o.state_on_host = c.training.enable_cpu_offload;
  o.expert_overflow = c.parallelism.expert_overflow;
  o.float8 = float8_of_parameter(c);
  o.optimizer = {.decoupled_weight_decay = c.optimizer.name != OptimizerName::adam,
                 .beta1 = c.optimizer.beta1,
                 .beta2 = c.optimizer.beta2,
                 .eps = c.optimizer.eps,
                 .weight_decay = c.optimizer.weight_decay};
  if (c.optimizer.name == OptimizerName::muon)
    o.muon = {.options = {.momentum = c.optimizer.muon_momentum, .nesterov = c.optimizer.muon_nesterov},
              .ns_steps = c.optimizer.muon_ns_steps,
              .matches_adamw = c.optimizer.muon_adjust_lr == MuonAdjustLr::match_rms_adamw,
              .dtype = o.sharding.fsdp.compute_dtype};
  o.update_of = update_of_parameter(c, o);
  return o;
}

std::string weight_decay_text(const JobConfig& c, const Decoder& model) {
  const std::vector<ParameterGroup> groups = read_parameter_groups(c.optimizer.parameter_groups);
  std::map<double, std::int64_t, std::greater<>> tensors;  // by their decay
  for (const ParameterRule& rule : model.parameters()) {
    const std::size_t group = group_of(groups, rule.name);
    const std::optional<double> own =
        group < groups.size() ? groups[group].weight_decay : std::optional<double>();
    ++tensors[own.value_or(c.optimizer.weight_decay)];
  }
  std::vector<std::string> parts;
  for (const auto& [decay, count] : tensors)
    parts.push_back(fmt::format("{} on {} tensor{}", decay == 0 ? "none" : fmt::format("{:g}", decay), count,
                                count == 1 ? "" : "s"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

StepProgram compile_step(const JobConfig& c, const Layout& layout,
                         const std::optional<PipelineLayout>& pipeline, std::int64_t rank,
                         const std::shared_ptr<const Decoder>& model, const CompileRequest& request) {
  const TrainStepOptions options = step_options(c, layout, rank);
  if (!pipeline) return {make_train_step(model, options), request, c.validation.enable};
  const PipelineSchedule schedule{.program = pipeline->program,
                                  .proof = pipeline->proof,
                                  .rank = layout.mesh.coordinate(rank, Axis::pp),
                                  .ranks = layout.mesh.members(rank, Axis::pp)};
  return {make_pipeline_step(model, pipeline->stages, schedule.stages_of_rank(), options), schedule, request,
          c.validation.enable};
}

CompileRequest compile_request(const JobConfig& c, TargetDevice device,
                               const std::filesystem::path& graph_folder,
                               const std::optional<MatmulTable>& matmuls) {
  CompileRequest request;
  request.executor = c.compile.enable ? c.compile.executor : ExecutorKind::eager;
  request.options = compile_options(c, device);
  if (matmuls) request.options.matmul_algorithms = matmuls->algorithms();
  if (!graph_folder.empty() && c.compile.dump != GraphDump::none) {
    request.dump_folder = graph_folder;
    request.dump_all = c.compile.dump == GraphDump::all;
  }
  return request;
}

DataOptions training_data(const JobConfig& c, const Layout& layout, const RankEnvironment& environment) {
  DataOptions o;
  o.path = training_path(c);
  o.weights = c.training.dataset_weights;
  o.text = {c.training.text_key,
            c.training.on_bad_record,
            c.training.token_cache,
            environment.local_rank == 0,
            {c.training.document_begin, c.training.document_end},
            c.training.document_separator};
  o.holdout_fraction =
      c.validation.enable && validation_path(c).empty() ? c.validation.holdout_fraction : 0.0;
  o.seed = static_cast<std::uint64_t>(c.debug.seed);
  o.shuffle = c.training.shuffle;
  o.seq_len = c.training.seq_len;
  o.local_batch = layout.microbatch_size;
  o.accumulation = layout.microbatches;
  o.dp_rank = layout.mesh.coordinate(environment.rank, kDataAxes);
  o.dp_size = layout.data_parallel();
  o.context = {.rank = layout.mesh.coordinate(environment.rank, Axis::cp),
               .ranks = layout.mesh.degree(Axis::cp),
               .balance = context_balance(c.parallelism),
               .masks = find_model_spec(c.model.name)->masks(c.model.sizes)};
  for (const StepRange& steps : read_step_ranges(c.training.skip_data_of_steps))
    o.skips.push_back({(steps.first - 1) * layout.global_batch_size, steps.last * layout.global_batch_size});
  o.document_attention = c.training.document_attention;
  o.num_prefetch_batches = c.training.num_prefetch_batches;
  return o;
}

// Is not debug.seed, so that runs with different seeds validate the same rows.
constexpr std::uint64_t kValidationSeed = 0;

DataOptions validation_data(const JobConfig& c, const Layout& layout, const RankEnvironment& environment) {
  DataOptions o = training_data(c, layout, environment);
  o.shuffle = true;
  o.one_epoch = true;
  o.skips.clear();
  o.seed = kValidationSeed;
  if (const std::string path = validation_path(c); path.empty()) {
    o.split = Split::validation;
    o.entry_by_entry = c.validation.steps == -1;  // all the data, of which weights would leave some out
  } else {
    o.path = path;
    o.weights.clear();
  }
  o.seq_len = c.validation.seq_len;
  o.local_batch = c.validation.local_batch_size;
  o.accumulation = 1;
  o.num_prefetch_batches = 0;
  return o;
}

}  // namespace rondo

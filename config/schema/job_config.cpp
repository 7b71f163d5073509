// Lists the fields of each section. The reader, the flags, the help and the resolved file all read
// these lists, so a key exists everywhere or nowhere. A rule that is not an interval is a check
// function next to its field. Values that torchtitan has and this version lacks are `later` values,
// with an error message of their own. The lists are function-local statics, so they are built at
// first use from any file. A Section hides its struct behind functions, so readers need no
// templates.
#include "config/schema/job_config.h"

#include "config/schema/value_checks.h"

namespace rondo {
namespace {

constexpr double kMaxBatch = 1 << 20;
constexpr double kMaxTokens = 1 << 24;

}  // namespace

const Fields& Job::fields() {
  static const Fields list = {
      field("config_file", &Job::config_file, "TOML file to read", {.flag_only = true}),
      field("dump_folder", &Job::dump_folder,
            "output folder of the run: metrics, events, graph, resolved configuration",
            {.check = run_folder}),
      field("description", &Job::description, "one line that describes the run"),
      field("print_config", &Job::print_config, "print the resolved configuration at the start"),
      field("device", &Job::device,
            "device of the ranks, one GPU each or the CPU cores; auto: GPUs if the machine has any and the "
            "program is built with CUDA",
            {.unset = "auto"}),
      field("time_limit_seconds", &Job::time_limit_seconds,
            "limit on the run's time since its start: the run saves and ends with exit code 75 before it; 0: "
            "the time limit of the Slurm job, if there is one",
            {.minimum = 0, .maximum = 1e9, .unit = "seconds"}),
      field("time_margin_seconds", &Job::time_margin_seconds,
            "how long before the time limit the run saves and ends",
            {.minimum = 0, .maximum = 1e6, .unit = "seconds"}),
  };
  return list;
}

const Fields& Optimizer::fields() {
  static const Fields list = {
      field("name", &Optimizer::name,
            "AdamW (decoupled weight decay), Adam (weight decay added to the gradient) or Muon (orthogonal "
            "updates of the matrices of hidden layers, and AdamW for all other parameters)"),
      field("lr", &Optimizer::lr, "peak learning rate", {.minimum = 0}),
      field("beta1", &Optimizer::beta1, "decay rate of the first moment", {.minimum = 0, .below = 1}),
      field("beta2", &Optimizer::beta2, "decay rate of the second moment", {.minimum = 0, .below = 1}),
      field("eps", &Optimizer::eps, "term added to the square root of the second moment", {.above = 0}),
      field("weight_decay", &Optimizer::weight_decay, "weight decay of every parameter", {.minimum = 0}),
      field("muon_momentum", &Optimizer::muon_momentum, "decay rate of Muon's momentum",
            {.minimum = 0, .below = 1}),
      field("muon_nesterov", &Optimizer::muon_nesterov,
            "Muon's update is the momentum after one more step of the gradient, not the momentum"),
      field("muon_ns_steps", &Optimizer::muon_ns_steps,
            "Newton-Schulz iterations that orthogonalize an update of Muon", {.minimum = 1, .maximum = 20}),
      field("muon_adjust_lr", &Optimizer::muon_adjust_lr,
            "factor of Muon's learning rate for a matrix: match_rms_adamw: 0.2 sqrt(max(rows, columns)), "
            "whose updates are as large as AdamW's; original: sqrt(max(1, rows / columns))"),
      field("early_step_in_backward", &Optimizer::early_step_in_backward,
            "updates the parameters of a bucket as soon as their gradients are reduced, so that gradients "
            "take less memory; needs training.max_norm = inf"),
      field(
          "parameter_groups", &Optimizer::parameter_groups,
          "parameters with settings of their own, such as *norm*+tok_embeddings: weight_decay=0 "
          "lr_factor=0.5, or beside Muon *.wk: optimizer=AdamW; names as in compile.fsdp_buckets; the first "
          "entry that matches a parameter applies",
          {.check = groups_of_parameters}),
      field("implementation", &Optimizer::implementation,
            "the update is part of the graph for every value; fused_opt_states_bf16: moments in bfloat16 "
            "while training.dtype is float32"),
      field("bf16_rounding", &Optimizer::bf16_rounding,
            "rounding of parameters and moments in bfloat16: stochastic: up with the probability of the "
            "fraction, which keeps small updates in the mean; nearest: updates below half a unit in the last "
            "place are lost"),
  };
  return list;
}

const Fields& LrScheduler::fields() {
  static const Fields list = {
      field("warmup_steps", &LrScheduler::warmup_steps, "linear warm-up to optimizer.lr",
            {.minimum = 0, .maximum = kMaxSteps, .unit = "steps"}),
      field("total_steps", &LrScheduler::total_steps, "length of the schedule; not set: training.steps",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("decay_ratio", &LrScheduler::decay_ratio,
            "fraction of the schedule that decays, at most what the warm-up leaves, as 0.2 in WSD (warm-up, "
            "stable, decay); not set: all that the warm-up leaves",
            {.minimum = 0, .maximum = 1}),
      field("decay_type", &LrScheduler::decay_type, "shape of the decay"),
      field("min_lr_factor", &LrScheduler::min_lr_factor, "final learning rate as a fraction of optimizer.lr",
            {.minimum = 0, .maximum = 1}),
  };
  return list;
}

const Fields& Training::fields() {
  const auto dtypes = names_of({Precision::float32, Precision::bfloat16}),
             state_dtypes = names_of({Precision::float32, Precision::bfloat16, Precision::float64});
  static const Fields list = {
      field("dataset", &Training::dataset,
            "data set: text (data/corpus), a name of training.datasets, or torchtitan's c4, c4_test and "
            "c4_validation (data/NAME)",
            {.check = not_empty}),
      field("dataset_path", &Training::dataset_path,
            "files, folders or globs, separated by commas: text, JSONL or token files; empty: the path of "
            "training.dataset"),
      field("datasets", &Training::datasets, "paths of data sets, as NAME=PATH", {.check = named_paths}),
      field("dataset_weights", &Training::dataset_weights,
            "fraction of the samples from each entry of dataset_path, normalized to a sum of 1; empty: all "
            "documents form one stream",
            {.above = 0}),
      field("skip_data_of_steps", &Training::skip_data_of_steps,
            "steps whose samples are left out, as 12000-12040 or 15000, counted with the present global "
            "batch; other steps read the samples after them",
            {.check = ranges_of_steps}),
      field("text_key", &Training::text_key,
            "JSONL field, or column of a table, that holds the text of a document", {.check = not_empty}),
      field("on_bad_record", &Training::on_bad_record,
            "a line of JSONL that is no object with a string in text_key, or a null of a table: stop with an "
            "error, or skip it and count it by its reason"),
      field("document_begin", &Training::document_begin,
            "token before each document of text: its text, or none; auto: BOS of the tokenizer, unless its "
            "add_bos_token is false or BOS is the end",
            {.check = not_empty}),
      field("document_end", &Training::document_end,
            "token after each document of text: its text, or none; auto: EOS of the tokenizer",
            {.check = not_empty}),
      field("document_separator", &Training::document_separator,
            "text between the documents of a text file, such as <|endoftext|>; empty: a text file is one "
            "document"),
      field("special_tokens", &Training::special_tokens,
            "what text that spells a control token, such as <|endoftext|>, becomes: text, or the token"),
      field("token_cache", &Training::token_cache,
            "folder for cached tokens of text data, for any tokenizer but bytes; empty: .rondo-tokens next "
            "to the data"),
      field(
          "tokenizer", &Training::tokenizer,
          "bytes: ids 0 to 255 are bytes, 256 begins and 257 ends a document; or a tokenizer's file, or its "
          "folder; auto: the tokenizer of model.hf_assets_path, or else of the Hugging Face folder whose "
          "weights the run begins with, or else bytes",
          {.check = not_empty}),
      field("local_batch_size", &Training::local_batch_size, "sequences per rank and microbatch",
            {.minimum = 1, .maximum = kMaxBatch, .unit = "sequences"}),
      field("global_batch_size", &Training::global_batch_size,
            "sequences per step over all ranks; more than local_batch_size * data-parallel degree "
            "accumulates gradients; -1: exactly that product",
            {.minimum = -1, .maximum = kMaxTokens, .unit = "sequences", .check = minus_one_or_positive}),
      field("seq_len", &Training::seq_len, "length of a sequence",
            {.minimum = 1, .maximum = kMaxTokens, .unit = "tokens"}),
      field("max_norm", &Training::max_norm,
            "maximum global norm of the gradient; larger gradients are clipped to it; inf: no clipping",
            {.above = 0, .infinite = true}),
      field("steps", &Training::steps, "optimizer steps of the run",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("dtype", &Training::dtype,
            "dtype of master weights and optimizer state; float64 (CPU only) overrides mixed_precision_param "
            "and mixed_precision_reduce",
            {.allowed = state_dtypes}),
      field("mixed_precision_param", &Training::mixed_precision_param,
            "dtype of gathered weights and of computation", {.allowed = dtypes}),
      field("mixed_precision_reduce", &Training::mixed_precision_reduce, "dtype of gradient reductions",
            {.allowed = dtypes}),
      field("enable_cpu_offload", &Training::enable_cpu_offload,
            "keeps parameters and optimizer state in host memory; a step copies those of a bucket to the "
            "device when it needs them, and the updated ones back"),
      field("document_attention", &Training::document_attention,
            "mask attention across document boundaries, and restart positions there"),
      field("shuffle", &Training::shuffle, "shuffle the samples, seeded with debug.seed"),
      field("num_prefetch_batches", &Training::num_prefetch_batches, "batches loaded ahead of the step",
            {.minimum = 0, .maximum = 1024, .unit = "batches"}),
  };
  return list;
}

const Fields& Checkpoint::fields() {
  using C = Checkpoint;
  static const Fields list = {
      field("enable", &C::enable, "save checkpoints, and resume from the newest valid one"),
      field("folder", &C::folder, "folder of checkpoints, below job.dump_folder", {.check = own_subfolder}),
      field("interval", &C::interval, "steps between checkpoints",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("keep_latest_k", &C::keep_latest_k,
            "number of newest resumable checkpoints to keep, each verified; older ones are deleted; 0: keep "
            "all",
            {.minimum = 0, .maximum = 1e6, .unit = "checkpoints", .check = not_one}),
      field("async_mode", &C::async_mode,
            "disabled: training waits for the disk; async: training continues after a copy in memory",
            {.later = {"async_with_pinned_mem"}}),
      field("load_step", &C::load_step, "step to resume from; -1: the newest valid checkpoint",
            {.minimum = -1, .maximum = kMaxSteps, .unit = "steps"}),
      field("initial_load_path", &C::initial_load_path,
            "checkpoint (a step-N folder) to start from if the run has none of its own; with "
            "initial_load_in_hf, a Hugging Face folder"),
      field("initial_load_model_only", &C::initial_load_model_only,
            "load only the weights of initial_load_path; false: also optimizer, step and data position"),
      field(
          "initial_load_in_hf", &C::initial_load_in_hf,
          "start from the weights of a Hugging Face folder: initial_load_path, or else model.hf_assets_path"),
      field("initial_load_in_hf_quantized", &C::initial_load_in_hf_quantized,
            "require quantized weights in the Hugging Face folder; false: follow its config.json"),
      field("exclude_from_loading", &C::exclude_from_loading,
            "parts to reset once in a run, instead of loading them: optimizer, lr_scheduler, dataloader, "
            "train_state",
            {.check = excludable}),
      field("last_save_model_only", &C::last_save_model_only,
            "after the last step also save the weights alone, in export_dtype, as step-N-weights; the full "
            "checkpoint is always saved (torchtitan replaces it by default)"),
      field("last_save_in_hf", &C::last_save_in_hf,
            "after the last step also export the weights as a Hugging Face folder, step-N-hf"),
      field("export_dtype", &C::export_dtype, "dtype of weights that are saved alone",
            {.allowed = names_of({Precision::float32, Precision::float16, Precision::bfloat16})}),
      field("enable_first_step_checkpoint", &C::enable_first_step_checkpoint, "also save after step 1"),
      field("create_seed_checkpoint", &C::create_seed_checkpoint,
            "save the initial weights as step 0 and end; they are equal for all layouts"),
      field("load_only", &C::load_only, "load checkpoints but save none"),
      field("max_failed_saves", &C::max_failed_saves, "consecutive failed saves after which the run ends",
            {.minimum = 1, .maximum = 1e6, .unit = "saves"}),
  };
  return list;
}

const Fields& Validation::fields() {
  using V = Validation;
  static const Fields list = {
      field("enable", &V::enable, "measure the loss on validation data"),
      field("dataset", &V::dataset, "data set, as in training.dataset; text: documents held out of training",
            {.check = not_empty}),
      field("dataset_path", &V::dataset_path,
            "files, folders or globs, separated by commas; empty: the path of validation.dataset"),
      field("holdout_fraction", &V::holdout_fraction,
            "fraction of the training documents held out if validation.dataset_path is empty",
            {.minimum = 0, .below = 1}),
      field("local_batch_size", &V::local_batch_size, "sequences per rank and step",
            {.minimum = 1, .maximum = kMaxBatch, .unit = "sequences"}),
      field("seq_len", &V::seq_len, "length of a sequence",
            {.minimum = 1, .maximum = kMaxTokens, .unit = "tokens"}),
      field("freq", &V::freq, "training steps between validations",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("steps", &V::steps,
            "steps of one validation, equal on all ranks and at most once through the data; -1: all the data",
            {.minimum = -1, .maximum = kMaxSteps, .unit = "steps", .check = minus_one_or_positive}),
  };
  return list;
}

const Fields& Debug::fields() {
  static const Fields list = {
      field("seed", &Debug::seed, "seed of the initial weights, the data order and stochastic rounding",
            {.minimum = 0, .maximum = 9007199254740992.0}),
      field("deterministic", &Debug::deterministic, "use only operations with bitwise reproducible results"),
      field("check_replicas_every", &Debug::check_replicas_every,
            "steps between bitwise comparisons of replicated state; also compared before each save; 0: never",
            {.minimum = 0, .maximum = kMaxSteps, .unit = "steps"}),
      field("hash_every", &Debug::hash_every,
            "steps between hashes of the whole state in the metrics; 0: never",
            {.minimum = 0, .maximum = kMaxSteps, .unit = "steps"}),
      field("exceed_memory", &Debug::exceed_memory,
            "start although a rank's memory plan exceeds the memory that the rank may have"),
  };
  return list;
}

namespace {

template <class Struct>
Section section(std::string name, std::string meaning, Struct JobConfig::*member,
                bool (*is_off)(const Struct&) = nullptr) {
  const auto in = [member](JobConfig& config) -> void* { return &(config.*member); };
  const auto off = [=](const JobConfig& config) { return is_off != nullptr && is_off(config.*member); };
  return {std::move(name), std::move(meaning), &Struct::fields(), in, off};
}

}  // namespace

const std::vector<Section>& sections() {
  static const std::vector<Section> list = {
      section("job", "the run and its folder", &JobConfig::job),
      section("model", "the model and its sizes", &JobConfig::model),
      {"quantize.linear.float8", "linear layers in float8, if model.converters has float8",
       &Float8Linear::fields(), [](JobConfig& config) -> void* { return &config.float8_linear; },
       [](const JobConfig& config) { return !config.model.converts_to_float8(); }},
      {"quantize.linear.mx", "linear layers in MXFP8, if model.converters has quantize.linear.mx",
       &MxLinear::fields(), [](JobConfig& config) -> void* { return &config.mx_linear; },
       [](const JobConfig& config) { return !config.model.converts_to_mx(); }},
      {"quantize.linear.nvfp4", "linear layers in NVFP4, if model.converters has quantize.linear.nvfp4",
       &Nvfp4Linear::fields(), [](JobConfig& config) -> void* { return &config.nvfp4_linear; },
       [](const JobConfig& config) { return !config.model.converts_to_nvfp4(); }},
      {"quantize.grouped_mm.float8",
       "products of experts in float8, if model.converters has quantize.grouped_mm.float8",
       &Float8Experts::fields(), [](JobConfig& config) -> void* { return &config.float8_experts; },
       [](const JobConfig& config) { return !config.model.converts_experts_to_float8(); }},
      {"quantize.grouped_mm.mx",
       "products of experts in MXFP8, if model.converters has quantize.grouped_mm.mx", &MxExperts::fields(),
       [](JobConfig& config) -> void* { return &config.mx_experts; },
       [](const JobConfig& config) { return !config.model.converts_experts_to_mx(); }},
      section("optimizer", "the update of the weights", &JobConfig::optimizer),
      section("lr_scheduler", "warm-up, plateau and decay of the learning rate", &JobConfig::lr_scheduler),
      section("training", "data, batch, length and precision", &JobConfig::training),
      section("parallelism", "how ranks divide the work", &JobConfig::parallelism),
      section("activation_checkpoint", "recomputation of activations", &JobConfig::activation_checkpoint),
      section("compile", "recorded graph, passes and executor", &JobConfig::compile),
      section("compile.ep_overlap", "overlap of expert exchanges, torchtitan's key", &JobConfig::ep_overlap),
      section(
          "checkpoint", "saving and resuming", &JobConfig::checkpoint,
          +[](const Checkpoint& c) { return !c.enable; }),
      section("metrics", "console and TensorBoard", &JobConfig::metrics),
      section(
          "profiling", "traces of steps and memory snapshots", &JobConfig::profiling,
          +[](const Profiling& p) { return !p.enable_profiling && !p.enable_memory_snapshot; }),
      section(
          "validation", "loss on validation data", &JobConfig::validation,
          +[](const Validation& v) { return !v.enable; }),
      section("comm", "timeouts of other ranks, and the record of collectives", &JobConfig::comm),
      section("debug", "seed, determinism, hashes", &JobConfig::debug),
  };
  return list;
}

}  // namespace rondo

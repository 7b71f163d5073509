// One list of fields for each section: the reader, the flags, the help and the resolved file all walk it, so
// a key exists everywhere or nowhere. A rule that is no interval is a check function beside the field. Values
// that torchtitan has and this version has not are listed as `later`, which gives them a message of their
// own. Lists are function-local statics, so they are built at first use, whichever file asks first. A section
// hides its struct behind a function, so that readers need no templates.
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
      field("dump_folder", &Job::dump_folder, "folder of the run: metrics, events, graph, resolved config",
            {.check = not_empty}),
      field("description", &Job::description, "a line of text that says what the run is for"),
      field("print_config", &Job::print_config, "print the resolved configuration at the start"),
      field("device", &Job::device,
            "where ranks compute: each on a GPU of its own, or on the cores; auto: on GPUs where the "
            "machine has any and the program was built for them",
            {.unset = "auto"}),
      field("time_limit_seconds", &Job::time_limit_seconds,
            "the run saves and ends with exit code 75 before so much time has passed since its start; "
            "0: before the end of its Slurm job, where it is in one",
            {.minimum = 0, .maximum = 1e9, .unit = "seconds"}),
      field("time_margin_seconds", &Job::time_margin_seconds, "how long before the time limit that is",
            {.minimum = 0, .maximum = 1e6, .unit = "seconds"}),
  };
  return list;
}

const Fields& Model::fields() {
  static const Fields list = {
      field("name", &Model::name, "the model"),
      field("flavor", &Model::flavor, "its set of sizes; each size can be overridden by its own key"),
      field("hf_config", &Model::hf_config,
            "config.json of Hugging Face, or the folder that holds it: the model and its sizes come from it, "
            "and "
            "not from model.flavor"),
      field(
          "hf_assets_path", &Model::hf_assets_path,
          "Hugging Face folder of this model: its tokenizer, and weights for checkpoint.initial_load_in_hf"),
      field("converters", &Model::converters,
            "float8: linear layers multiply in float8, as quantize.linear.float8 says",
            {.check = known_converters}),
  };
  return list;
}

const Fields& Float8Linear::fields() {
  static const Fields list = {
      field(
          "recipe_name", &Float8Linear::recipe_name,
          "what shares a scale: a matrix (tensorwise), a row (rowwise), a row but for the gradients of "
          "weights, "
          "which stay in training.mixed_precision_param (rowwise_with_gw_hp), or 1 x 128 of activations and "
          "128 x 128 of weights (blockwise); not set: tensorwise"),
      field(
          "filter_fqns", &Float8Linear::filter_fqns,
          "parts of names of modules that keep their precision, as output; auto_filter_small_kn: and layers "
          "that are too small to be faster"),
      field("emulate", &Float8Linear::emulate,
            "multiply what float8 numbers stand for in float32: on the CPU, and on GPUs without float8"),
  };
  return list;
}

const Fields& Optimizer::fields() {
  static const Fields list = {
      field("name", &Optimizer::name, "AdamW decays weights apart from the gradient, Adam through it"),
      field("lr", &Optimizer::lr, "peak learning rate", {.minimum = 0}),
      field("beta1", &Optimizer::beta1, "decay of the first moment", {.minimum = 0, .below = 1}),
      field("beta2", &Optimizer::beta2, "decay of the second moment", {.minimum = 0, .below = 1}),
      field("eps", &Optimizer::eps, "added to the root of the second moment", {.above = 0}),
      field("weight_decay", &Optimizer::weight_decay, "decay of every parameter", {.minimum = 0}),
      field("parameter_groups", &Optimizer::parameter_groups,
            "what is treated otherwise, as *norm*+tok_embeddings: weight_decay=0 lr_factor=0.5; names as in "
            "compile.fsdp_buckets, the first entry that names a parameter counts",
            {.check = groups_of_parameters}),
      field("implementation", &Optimizer::implementation,
            "the graph's update for any of these; with the last, moments are bf16 beside f32"),
  };
  return list;
}

const Fields& LrScheduler::fields() {
  static const Fields list = {
      field("warmup_steps", &LrScheduler::warmup_steps, "linear warm-up to optimizer.lr",
            {.minimum = 0, .maximum = kMaxSteps, .unit = "steps"}),
      field("total_steps", &LrScheduler::total_steps,
            "length of the schedule, where it is not that of the run; not set: training.steps",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("decay_ratio", &LrScheduler::decay_ratio,
            "share of the schedule that decays, at most what the warm-up leaves; not set: all of that",
            {.minimum = 0, .maximum = 1}),
      field("decay_type", &LrScheduler::decay_type, "shape of the decay"),
      field("min_lr_factor", &LrScheduler::min_lr_factor, "the decay ends at this times optimizer.lr",
            {.minimum = 0, .maximum = 1}),
  };
  return list;
}

const Fields& Training::fields() {
  const auto dtypes = names_of({Precision::float32, Precision::bfloat16}),
             state_dtypes = names_of({Precision::float32, Precision::bfloat16, Precision::float64});
  static const Fields list = {
      field("dataset", &Training::dataset,
            "name of a data set: text, which is data/corpus; one of training.datasets; or torchtitan's c4, "
            "c4_test and c4_validation, which are data/NAME",
            {.check = not_empty}),
      field("dataset_path", &Training::dataset_path,
            "files, folders or globs, separated by commas: text, JSONL or token files; empty: where the data "
            "set lies"),
      field("datasets", &Training::datasets, "where data sets lie, as NAME=PATH, for all runs of a place",
            {.check = named_paths}),
      field("dataset_weights", &Training::dataset_weights,
            "share of the samples from each entry of dataset_path, numbers of any sum; empty: all documents "
            "are one stream",
            {.above = 0}),
      field("text_key", &Training::text_key, "the field of a line of JSONL that holds its text",
            {.check = not_empty}),
      field("token_cache", &Training::token_cache,
            "folder for the tokens of text, which is tokenized once for any tokenizer but bytes; empty: the "
            "folder "
            ".rondo-tokens beside the data"),
      field("tokenizer", &Training::tokenizer,
            "bytes: ids 0 to 255, 256 begins and 257 ends a document; or a tokenizer.json, or a folder with "
            "one; auto: that of model.hf_assets_path where it is set, else bytes",
            {.check = not_empty}),
      field("local_batch_size", &Training::local_batch_size, "sequences of one rank in one microbatch",
            {.minimum = 1, .maximum = kMaxBatch, .unit = "sequences"}),
      field("global_batch_size", &Training::global_batch_size,
            "sequences of one step over all ranks; more than local_batch_size times the data-parallel degree "
            "accumulates gradients; -1: just that product",
            {.minimum = -1, .maximum = kMaxTokens, .unit = "sequences", .check = minus_one_or_positive}),
      field("seq_len", &Training::seq_len, "length of a sequence",
            {.minimum = 1, .maximum = kMaxTokens, .unit = "tokens"}),
      field("max_norm", &Training::max_norm, "the gradient's global norm is clipped to this", {.above = 0}),
      field("steps", &Training::steps, "optimizer steps of the run",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("dtype", &Training::dtype,
            "type of master weights and optimizer state; float64, on the CPU, is that of all other numbers "
            "too, whatever mixed_precision_param and mixed_precision_reduce say",
            {.allowed = state_dtypes}),
      field("mixed_precision_param", &Training::mixed_precision_param,
            "type that weights are gathered and computed in", {.allowed = dtypes}),
      field("mixed_precision_reduce", &Training::mixed_precision_reduce, "type that gradients are reduced in",
            {.allowed = dtypes}),
      field("document_attention", &Training::document_attention,
            "attention and positions stop at the borders of documents"),
      field("shuffle", &Training::shuffle, "visit the samples in an order drawn from debug.seed"),
      field("num_prefetch_batches", &Training::num_prefetch_batches, "batches prepared ahead of the step",
            {.minimum = 0, .maximum = 1024, .unit = "batches"}),
  };
  return list;
}

const Fields& ActivationCheckpoint::fields() {
  static const Fields list = {
      field("mode", &ActivationCheckpoint::mode,
            "what the backward computes again; in a recorded graph the same as compile.memory_policy none, "
            "default, full and budget; an eager run knows none, selective and full"),
      field("memory_budget", &ActivationCheckpoint::memory_budget,
            "with memory_budget: kept activations, between those of full (0) and of none (1)",
            {.minimum = 0, .maximum = 1}),
      field(
          "selective_ac_option", &ActivationCheckpoint::selective_ac_option,
          "with selective, of an eager run: op computes every block again, but keeps what is expensive save "
          "every second matrix product; a number k computes each k-th block again, and keeps nothing of it; "
          "a recorded graph has compile.memory_policy",
          {.check = op_or_number}),
  };
  return list;
}

const Fields& Compile::fields() {
  static const Fields list = {
      field("enable", &Compile::enable, "record the step as one graph and play it back; false: run eagerly"),
      field("executor", &Compile::executor, "replay: a plan made once; interpreter: the plain reference",
            {.allowed = names_of({ExecutorKind::interpreter, ExecutorKind::replay})}),
      field("passes", &Compile::passes,
            "optional passes over the graph; \"default\" stands for the default list"),
      field("disable_passes", &Compile::disable_passes, "passes to leave out of that list"),
      field("numerics", &Compile::numerics,
            "exact: only passes that keep every bit; rounds: also those that round differently"),
      field("memory_policy", &Compile::memory_policy,
            "what the backward keeps: none (everything), default (what is dear to compute), eager (default "
            "without every second matrix product), min_cut (fewest bytes for that), budget (up to "
            "memory_budget_gib), full "
            "(nothing), sac_and_offload (as default, in the host's memory); auto: as "
            "activation_checkpoint.mode says",
            {.unset = "auto"}),
      field("memory_budget_gib", &Compile::memory_budget_gib,
            "with policy budget: activations that the blocks keep for the backward, a rank; 0: the share "
            "activation_checkpoint.memory_budget",
            {.minimum = 0, .maximum = 1e6, .unit = "GiB"}),
      field("full_recompute_save_ops", &Compile::full_recompute_save_ops,
            "with policy full: what is kept all the same, as MODULE_PATTERN::aten.OP.OVERLOAD with * for any "
            "text",
            {.check = selectors}),
      field("full_recompute_all_to_all", &Compile::full_recompute_all_to_all,
            "with policy full: what all-to-alls brought is not kept; the backward exchanges it again"),
      field(
          "fsdp_buckets", &Compile::fsdp_buckets,
          "parameters that are gathered and reduced together: each entry is a bucket, names of parameters or "
          "modules separated by | or +, with * for any text; layers.[0-5] is a bucket for each of the six; "
          "the "
          "others stay in the model's own buckets",
          {.check = buckets}),
      field("loss_chunks", &Compile::loss_chunks,
            "with numerics \"rounds\": chunks of a batch's rows that logits and loss are computed for one "
            "after another; 0: as few as keep a chunk's logits below 1 GiB; -1: the loss is whole",
            {.minimum = -1, .maximum = 1e6, .unit = "chunks"}),
      field("attention", &Compile::attention,
            "on GPUs: the kernel of every attention; auto: the first of cudnn, flash, efficient and direct "
            "that "
            "can",
            {.unset = "auto"}),
      field("matmul_algorithms", &Compile::matmul_algorithms,
            "with numerics \"rounds\", on GPUs: the file of `rondo tune`, which says by which algorithm of "
            "cuBLASLt each product is computed; empty: as LibTorch chooses"),
      field("enable_fsdp_ag_rs_overlap", &Compile::enable_fsdp_ag_rs_overlap,
            "gathers go through a group of their own, so that none waits behind a reduction"),
      field("cpu_offload_budget_gb", &Compile::cpu_offload_budget_gb,
            "with policy sac_and_offload: the host's memory for activations, a rank",
            {.minimum = 0, .maximum = 1e6, .unit = "GiB"}),
      field("cpu_offload_defer_n_layers", &Compile::cpu_offload_defer_n_layers,
            "blocks of the forward that an activation has more to get to the host",
            {.minimum = 0, .maximum = 1e6, .unit = "layers"}),
      field("cpu_offload_prefetch_n_layers", &Compile::cpu_offload_prefetch_n_layers,
            "blocks of the backward that an activation starts back ahead",
            {.minimum = 0, .maximum = 1e6, .unit = "layers"}),
      field("dump", &Compile::dump, "graphs written into the run folder: after each pass, the last, or none"),
      field("dump_ranks", &Compile::dump_ranks, "of which ranks: the first, or all, in graph/rank_R"),
  };
  return list;
}

const Fields& Checkpoint::fields() {
  using C = Checkpoint;
  static const Fields list = {
      field("enable", &C::enable, "save, and go on from the newest checkpoint that verifies"),
      field("folder", &C::folder, "where checkpoints lie, below job.dump_folder", {.check = plain_subfolder}),
      field("interval", &C::interval, "save every so many steps",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field(
          "keep_latest_k", &C::keep_latest_k,
          "keep so many of the newest checkpoints that a run can resume from, each of them proven whole, and "
          "delete what is older; 0: keep all",
          {.minimum = 0, .maximum = 1e6, .unit = "checkpoints", .check = not_one}),
      field("async_mode", &C::async_mode,
            "disabled: training waits for the disk; async: it goes on after a copy in memory",
            {.later = {"async_with_pinned_mem"}}),
      field("load_step", &C::load_step, "resume from this step; -1: the newest that verifies",
            {.minimum = -1, .maximum = kMaxSteps, .unit = "steps"}),
      field("initial_load_path", &C::initial_load_path,
            "checkpoint (a step-N folder) that a run without checkpoints of its own begins with; with "
            "initial_load_in_hf a Hugging Face folder"),
      field("initial_load_model_only", &C::initial_load_model_only,
            "take only the weights from there; false: optimizer, step and data position too"),
      field("initial_load_in_hf", &C::initial_load_in_hf,
            "begin with the weights of a Hugging Face folder: initial_load_path, else model.hf_assets_path"),
      field("initial_load_in_hf_quantized", &C::initial_load_in_hf_quantized,
            "refuse a Hugging Face folder whose weights are not quantized; false: take it as its config.json "
            "says"),
      field("exclude_from_loading", &C::exclude_from_loading,
            "parts that begin anew when a checkpoint is loaded: optimizer, lr_scheduler, dataloader, "
            "train_state",
            {.check = excludable}),
      field("last_save_model_only", &C::last_save_model_only,
            "after the last step save the weights alone too, in export_dtype, as step-N-weights beside the "
            "full "
            "checkpoint, which is always there (torchtitan: instead of it, and by default)"),
      field("last_save_in_hf", &C::last_save_in_hf,
            "write the last weights as a Hugging Face folder too, step-N-hf beside the checkpoint"),
      field("export_dtype", &C::export_dtype, "type of weights that are saved alone",
            {.allowed = names_of({Precision::float32, Precision::float16, Precision::bfloat16})}),
      field("enable_first_step_checkpoint", &C::enable_first_step_checkpoint, "save after step 1 too"),
      field("create_seed_checkpoint", &C::create_seed_checkpoint,
            "save the initial weights as step 0 and end; they are the same for every layout"),
      field("load_only", &C::load_only, "load as usual, save nothing"),
      field("max_failed_saves", &C::max_failed_saves, "end after so many failed saves in a row",
            {.minimum = 1, .maximum = 1e6, .unit = "saves"}),
  };
  return list;
}

const Fields& Validation::fields() {
  using V = Validation;
  static const Fields list = {
      field("enable", &V::enable, "measure the loss on held-out data"),
      field("dataset", &V::dataset,
            "name of a data set, as training.dataset; text: documents held out of training",
            {.check = not_empty}),
      field("dataset_path", &V::dataset_path, "file, folder or glob; empty: where the data set lies"),
      field("holdout_fraction", &V::holdout_fraction,
            "share of the training documents held out, where validation.dataset_path is empty",
            {.minimum = 0, .below = 1}),
      field("local_batch_size", &V::local_batch_size, "sequences of one rank in one step",
            {.minimum = 1, .maximum = kMaxBatch, .unit = "sequences"}),
      field("seq_len", &V::seq_len, "length of a sequence",
            {.minimum = 1, .maximum = kMaxTokens, .unit = "tokens"}),
      field("freq", &V::freq, "validate every so many training steps",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("steps", &V::steps,
            "length of one validation, the same on all ranks; -1: the whole batches that the data has",
            {.minimum = -1, .maximum = kMaxSteps, .unit = "steps", .check = minus_one_or_positive}),
  };
  return list;
}

const Fields& Debug::fields() {
  static const Fields list = {
      field("seed", &Debug::seed, "initial weights and the order of the data follow from it",
            {.minimum = 0, .maximum = 9007199254740992.0}),
      field("deterministic", &Debug::deterministic, "only operations that give the same bits every time"),
      field("check_replicas_every", &Debug::check_replicas_every,
            "compare the bits of state that several ranks hold every so many steps and before each save; 0: "
            "never",
            {.minimum = 0, .maximum = kMaxSteps, .unit = "steps"}),
      field("hash_every", &Debug::hash_every,
            "write a hash of the whole state into the metrics every so many steps; 0: never",
            {.minimum = 0, .maximum = kMaxSteps, .unit = "steps"}),
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
      section("model", "which model, and its sizes", &JobConfig::model),
      {"quantize.linear.float8", "linear layers in float8, where model.converters says so",
       &Float8Linear::fields(), [](JobConfig& config) -> void* { return &config.float8_linear; },
       [](const JobConfig& config) { return !config.model.converts_to_float8(); }},
      section("optimizer", "the update of the weights", &JobConfig::optimizer),
      section("lr_scheduler", "warm-up, plateau and decay of the learning rate", &JobConfig::lr_scheduler),
      section("training", "data, batch, length and precision", &JobConfig::training),
      section("parallelism", "how the ranks share the work", &JobConfig::parallelism),
      section("activation_checkpoint", "recompute instead of keeping activations",
              &JobConfig::activation_checkpoint),
      section("compile", "recording the step, passes and executor", &JobConfig::compile),
      section(
          "checkpoint", "saving and resuming", &JobConfig::checkpoint,
          +[](const Checkpoint& c) { return !c.enable; }),
      section("metrics", "console and TensorBoard", &JobConfig::metrics),
      section(
          "profiling", "traces of steps and snapshots of memory", &JobConfig::profiling,
          +[](const Profiling& p) { return !p.enable_profiling && !p.enable_memory_snapshot; }),
      section(
          "validation", "loss on held-out data", &JobConfig::validation,
          +[](const Validation& v) { return !v.enable; }),
      section("comm", "patience with other ranks, and the record of collectives", &JobConfig::comm),
      section("debug", "seed, determinism, hashes", &JobConfig::debug),
  };
  return list;
}

}  // namespace rondo

// The configuration of a run: plain structs, one per section of the TOML file, with torchtitan
// v0.2.2's section and key names. job_config.cpp lists the meaning, unit and range of each key; the
// reader, the flags, `rondo help`, the resolved file and the fingerprint share that list.
// unsupported.cpp has torchtitan's keys for features that this version lacks.
//
// Value types. A loaded config (load.h) is checked and does not change afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/options.h"
#include "config/schema/choices.h"
#include "config/schema/model.h"
#include "config/schema/parallelism.h"
#include "config/schema/watching.h"
#include "datasets/documents/on_bad_record.h"
#include "datasets/tokenizer/special_tokens.h"
#include "ops/attention/attention_choice.h"
#include "support/fields.h"

namespace rondo {

struct Job {
  std::string config_file;  // "": defaults and flags only; not in the resolved file
  std::string dump_folder = "./outputs", description = "default job";
  bool print_config = false;
  std::optional<TargetDevice> device;   // unset: auto (device.h)
  std::int64_t time_limit_seconds = 0;  // from the start of the process; 0: Slurm's, if any
  std::int64_t time_margin_seconds = 120;
  static const Fields& fields();
};

struct Optimizer {
  OptimizerName name = OptimizerName::adamw;
  double lr = 8e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  std::int64_t muon_ns_steps = 5;
  MuonAdjustLr muon_adjust_lr = MuonAdjustLr::match_rms_adamw;
  bool early_step_in_backward = false;
  std::vector<std::string> parameter_groups;
  OptimizerImplementation implementation = OptimizerImplementation::fused;
  Bf16Rounding bf16_rounding = Bf16Rounding::stochastic;
  static const Fields& fields();
};

struct LrScheduler {
  std::int64_t warmup_steps = 200;
  std::optional<std::int64_t> total_steps;  // unset: training.steps
  std::optional<double> decay_ratio;        // unset: all that the warm-up leaves
  DecayType decay_type = DecayType::linear;
  double min_lr_factor = 0.0;
  static const Fields& fields();
};

struct Training {
  std::string dataset = "text";                 // name of a data set; see training_path (paths.h)
  std::string dataset_path;                     // "": what `dataset` means
  std::vector<std::string> datasets;            // "c4=/data/c4"
  std::vector<double> dataset_weights;          // one for each entry of dataset_path; empty: one stream
  std::vector<std::string> skip_data_of_steps;  // read_step_ranges
  std::string text_key = "text";
  OnBadRecord on_bad_record = OnBadRecord::stop;
  std::string document_begin = "auto", document_end = "auto";  // auto, none, or the text of a token
  std::string document_separator;                              // "": a text file is one document
  SpecialTokens special_tokens = SpecialTokens::text;
  std::string token_cache;         // "": next to the data
  std::string tokenizer = "auto";  // see tokenizer_name (paths.h)
  std::int64_t local_batch_size = 8;
  std::int64_t global_batch_size = -1;  // -1: local_batch_size times the data-parallel degree
  std::int64_t seq_len = 2048;
  double max_norm = 1.0;
  std::int64_t steps = 10000;
  Precision dtype = Precision::float32;
  Precision mixed_precision_param = Precision::bfloat16, mixed_precision_reduce = Precision::float32;
  bool enable_cpu_offload = false, document_attention = false, shuffle = true;
  std::int64_t num_prefetch_batches = 2;
  static const Fields& fields();
};

struct ActivationCheckpoint {
  ActivationCheckpointMode mode = ActivationCheckpointMode::none;
  double memory_budget = 0.5;              // with memory_budget
  std::string selective_ac_option = "op";  // op | a number, as text
  static const Fields& fields();
};

struct Compile {
  bool enable = true;
  ExecutorKind executor = ExecutorKind::replay;  // of a recorded step
  std::vector<std::string> passes = {"default"};
  std::vector<std::string> disable_passes;
  Numerics numerics = Numerics::exact;
  std::optional<MemoryPolicy> memory_policy;  // unset: auto, follows activation_checkpoint.mode
  double memory_budget_gib = 0;               // 0: activation_checkpoint.memory_budget applies
  std::vector<std::string> full_recompute_save_ops;
  bool full_recompute_all_to_all = false;
  std::vector<std::string> fsdp_buckets;  // empty: the model's
  bool enable_fsdp_ag_rs_overlap = false;
  std::int64_t tensor_parallel_pieces = 0;  // 0: by the cost model
  double cpu_offload_budget_gb = 100.0;
  std::int64_t cpu_offload_defer_n_layers = 1, cpu_offload_prefetch_n_layers = 1, loss_chunks = 0;
  std::optional<AttentionKernel> attention;  // unset: auto, the first that supports the shapes
  std::string matmul_algorithms;             // a file (matmul_table.h); empty: LibTorch's
  GraphDump dump = GraphDump::final;
  DumpRanks dump_ranks = DumpRanks::first;
  static const Fields& fields();
};

// torchtitan's overlap of expert exchanges. true: at least two overlapped microbatches.
struct EpOverlap {
  bool enabled = false;
  static const Fields& fields();
};

struct Checkpoint {
  bool enable = false;
  std::string folder = "checkpoint";  // below job.dump_folder
  std::int64_t interval = 500;
  std::int64_t keep_latest_k = 10;  // 0: all
  AsyncMode async_mode = AsyncMode::disabled;
  std::int64_t load_step = -1;    // -1: the newest that verifies
  std::string initial_load_path;  // "": none
  bool initial_load_model_only = true;
  bool initial_load_in_hf = false, initial_load_in_hf_quantized = false;
  std::vector<std::string> exclude_from_loading;  // of kExcludable
  bool last_save_model_only = false, last_save_in_hf = false;
  Precision export_dtype = Precision::float32;  // of weights that are saved alone
  bool enable_first_step_checkpoint = false;
  bool create_seed_checkpoint = false, load_only = false;
  std::int64_t max_failed_saves = 3;  // in a row
  static const Fields& fields();
};

struct Validation {
  bool enable = false;
  std::string dataset = "text";
  std::string dataset_path;  // "": the path of `dataset`; for text, the held-out training documents
  double holdout_fraction = 0.05;
  std::int64_t local_batch_size = 8, seq_len = 2048;
  std::int64_t freq = 10;
  std::int64_t steps = 10;  // -1: once through the data
  static const Fields& fields();
};

struct Debug {
  std::int64_t seed = 42;
  bool deterministic = false;
  std::int64_t check_replicas_every = 50, hash_every = 0;  // 0: never
  bool exceed_memory = false;
  static const Fields& fields();
};

struct JobConfig {
  Job job;
  Model model;
  Float8Linear float8_linear;
  MxLinear mx_linear;
  Nvfp4Linear nvfp4_linear;
  Float8Experts float8_experts;
  MxExperts mx_experts;
  Optimizer optimizer;
  LrScheduler lr_scheduler;
  Training training;
  Parallelism parallelism;
  ActivationCheckpoint activation_checkpoint;
  Compile compile;
  EpOverlap ep_overlap;
  Checkpoint checkpoint;
  Metrics metrics;
  Profiling profiling;
  Validation validation;
  Comm comm;
  Debug debug;

  // Facts about a loaded config that are not part of its value.
  std::map<std::string, std::string> origins;  // by key: "x.toml:12:3", "--optimizer.lr=1"
  std::vector<std::string> notes;              // surprises for the user, logged once
};

// A section of JobConfig.
struct Section {
  std::string name;
  std::string meaning;
  const Fields* fields;
  std::function<void*(JobConfig&)> in;           // struct of the section, for Field::get and set
  std::function<bool(const JobConfig&)> is_off;  // its switch is off, so no other value applies
};

// In the order of JobConfig.
const std::vector<Section>& sections();

}  // namespace rondo

// Groups keys by their fate, so that one reason serves a group and a new key is one line. The type
// of a key is the type of its off value. The fields have no getter and no setter: they are checked
// and never stored.
#include "config/schema/unsupported.h"

namespace rondo {
namespace {

using Texts = std::vector<std::string>;
using enum Fate;

FieldType type_of(const FieldValue& off) {
  if (std::holds_alternative<bool>(off)) return FieldType::boolean;
  if (std::holds_alternative<std::int64_t>(off)) return FieldType::integer;
  if (std::holds_alternative<double>(off)) return FieldType::number;
  if (std::holds_alternative<std::string>(off)) return FieldType::text;
  return FieldType::texts;
}

// The keys of one section.
struct Group {
  std::string section;
  Fate fate;
  std::string reason;  // refused: the feature with its verb, "float8 is"; behind_switch: the switch
  std::vector<std::pair<std::string, FieldValue>> keys;
};

std::int64_t operator""_i(unsigned long long value) { return static_cast<std::int64_t>(value); }
std::string operator""_t(const char* text, std::size_t size) { return {text, size}; }

Group dataloader(std::string section) {
  return {
      std::move(section),
      without_effect,
      "a thread of each rank prepares the same batches (training.num_prefetch_batches)",
      {{"num_workers", 0_i}, {"persistent_workers", false}, {"pin_memory", false}, {"prefetch_factor", 2_i}}};
}

const std::vector<Group>& groups() {  // NOLINT(readability-function-size): a table
  static const std::vector<Group> list = {
      {"job", refused, "a custom configuration module is", {{"custom_config_module", ""_t}}},
      {"job",
       refused,
       "job.save_config_file is (the resolved configuration is always in the run folder)",
       {{"save_config_file", ""_t}}},
      {"model", refused, "model.tokenizer_path (use model.hf_assets_path) is", {{"tokenizer_path", ""_t}}},
      {"model",
       without_effect,
       "the log says which layers are converted",
       {{"print_after_conversion", false}}},
      {"training",
       without_effect,
       "there is no Python garbage collector here",
       {{"gc_freq", 50_i}, {"gc_debug", false}}},
      dataloader("training.dataloader"),
      {"parallelism",
       refused,
       "tensor parallelism without loss parallelism is",
       {{"disable_loss_parallel", false}}},
      {"parallelism",
       refused,
       "parallelism.pipeline_parallel_split_points (use parallelism.module_fqns_per_model_part) is",
       {{"pipeline_parallel_split_points", Texts{}}}},
      {"activation_checkpoint",
       without_effect,
       "compile.memory_policy decides what is recomputed, and no policy changes a result",
       {{"per_op_sac_force_recompute_mm_shapes_by_fqns", Texts{"moe.router.gate"}}, {"early_stop", false}}},
      {"activation_checkpoint",
       without_effect,
       "recomputed results have the same bits, and blocks have no random ops",
       {{"preserve_rng_state", true}, {"determinism_check", "default"_t}, {"debug", false}}},
      {"activation_checkpoint",
       refused,
       "a plot of memory budget costs is",
       {{"visualize_memory_budget_pareto", false}}},
      {"compile",
       without_effect,
       "the whole step is recorded as one graph, without torch.compile",
       {{"components", Texts{"model", "loss"}}, {"backend", "inductor"_t}}},
      {"compile.ep_overlap",
       refused,
       "an overlap of expert exchanges by anything other than halves of the batch, over whole layers, is",
       {{"chunk_dim", "batch"_t}, {"module_fqn", "layers.*"_t}, {"strategy", "graph"_t}}},
      {"compile.ep_overlap",
       without_effect,
       "each microbatch adds its gradients to the sums of the step",
       {{"disable_early_grad_accumulation", false}}},
      {"checkpoint", behind_switch, "fault_tolerance.enable", {{"enable_ft_dataloader_checkpoints", true}}},
      {"metrics", refused, "logging from every rank is", {{"save_for_all_ranks", false}}},
      {"metrics", refused, "Weights & Biases is", {{"enable_wandb", false}}},
      {"comm", refused, "communication without other ranks is", {{"mode", "default"_t}}},
      {"quantize.linear.float8",
       without_effect,
       "the scales of all weights that are gathered in float8 are one all-reduce, at the start of a pass",
       {{"precompute_float8_dynamic_scale_for_fsdp", false}}},
      {"quantize.linear.mx",
       without_effect,
       "columns are quantized by LibTorch's ops",
       {{"mxfp8_dim1_cast_kernel_choice", "triton"_t}}},
      {"memory_estimation", refused, "memory estimation (use `rondo plan`) is", {{"enable", false}}},
      {"memory_estimation", behind_switch, "memory_estimation.enable", {{"disable_fake_mode", false}}},
      {"fault_tolerance", refused, "fault tolerance by torchft is", {{"enable", false}}},
      {"fault_tolerance",
       behind_switch,
       "fault_tolerance.enable",
       {{"process_group", "gloo"_t},
        {"process_group_timeout_ms", 10000_i},
        {"replica_id", 0_i},
        {"group_size", 0_i},
        {"min_replica_size", 1_i},
        {"semi_sync_method", ""_t}}},
      {"experimental",
       refused,
       "loading Python modules is",
       {{"custom_import", ""_t}, {"custom_args_module", ""_t}}},
      dataloader("validation.dataloader"),
      {"debug", refused, "deterministic mode that only warns is", {{"deterministic_warn_only", false}}},
      {"debug", refused, "a forced balance of experts is", {{"moe_force_load_balance", false}}},
  };
  return list;
}

std::string reason_of(const Group& group) {
  if (group.fate == refused) return group.reason + " not in this version";
  if (group.fate == behind_switch) return "of no effect while " + group.reason + " is off, as it has to be";
  return group.reason;
}

}  // namespace

const std::vector<UnsupportedKey>& unsupported_keys() {
  static const std::vector<UnsupportedKey> list = [] {
    std::vector<UnsupportedKey> keys;
    for (const Group& group : groups())
      for (const auto& [name, off] : group.keys) {
        FieldRule rule;
        if (group.fate == refused) rule.unsupported = group.reason;
        keys.push_back({group.section,
                        {.name = name,
                         .type = type_of(off),
                         .optional = false,
                         .default_value = off,
                         .meaning = "torchtitan's; " + reason_of(group),
                         .rule = rule,
                         .get = nullptr,
                         .set = nullptr},
                        group.fate,
                        reason_of(group)});
      }
    return keys;
  }();
  return list;
}

}  // namespace rondo

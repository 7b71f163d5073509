// Keys are grouped by feature, so that one message serves a group and a new key is one line. The type of a
// key is that of its off value. These fields have no getter and no setter: they are checked and never stored.
// A key behind a switch loses its rule and keeps its type, since torchtitan does not look at it while the
// switch is off.
#include "trainer/config/schema/unsupported.h"

namespace rondo {
namespace {

using Texts = std::vector<std::string>;

FieldType type_of(const FieldValue& off) {
  if (std::holds_alternative<bool>(off)) return FieldType::boolean;
  if (std::holds_alternative<std::int64_t>(off)) return FieldType::integer;
  if (std::holds_alternative<double>(off)) return FieldType::number;
  if (std::holds_alternative<std::string>(off)) return FieldType::text;
  return FieldType::texts;
}

// The keys of one section; `feature` completes "... is not in this version".
struct Group {
  std::string section;
  std::string feature;  // with its verb: "profiling is"
  std::vector<std::pair<std::string, FieldValue>> keys;
  bool behind_switch = false;
};

constexpr bool kBehindSwitch = true;

std::int64_t operator""_i(unsigned long long value) { return static_cast<std::int64_t>(value); }
std::string operator""_t(const char* text, std::size_t size) { return {text, size}; }

const std::vector<Group>& groups() {
  static const std::vector<Group> list = {
      {"job", "a custom configuration module is", {{"custom_config_module", ""_t}}},
      {"job",
       "job.save_config_file is (the resolved configuration is always in the run folder)",
       {{"save_config_file", ""_t}}},
      {"model", "model.tokenizer_path (use model.hf_assets_path) is", {{"tokenizer_path", ""_t}}},
      {"model", "model conversion is", {{"converters", Texts{}}, {"print_after_conversion", false}}},
      {"optimizer", "the optimizer step inside the backward is", {{"early_step_in_backward", false}}},
      {"training", "CPU offload is", {{"enable_cpu_offload", false}}},
      {"training", "Python's garbage collector is", {{"gc_freq", 50_i}, {"gc_debug", false}}, kBehindSwitch},
      {"training.dataloader",
       "a data loader of several processes is",
       {{"num_workers", 0_i}, {"persistent_workers", false}, {"pin_memory", false}}},
      {"parallelism",
       "tensor parallelism without loss parallelism, or in pieces that overlap, is",
       {{"disable_loss_parallel", false}, {"enable_async_tensor_parallel", false}}},
      {"parallelism",
       "pipeline parallelism is",
       {{"pipeline_parallel_split_points", Texts{}},
        {"module_fqns_per_model_part", Texts{}},
        {"pipeline_parallel_first_stage_less_layers", 1_i},
        {"pipeline_parallel_last_stage_less_layers", 1_i},
        {"pipeline_parallel_schedule", "1F1B"_t},
        {"pipeline_parallel_schedule_csv", ""_t},
        {"pipeline_parallel_microbatch_size", 1_i},
        {"pipeline_parallel_expert_parallel_overlap", true}},
       kBehindSwitch},
      {"parallelism",
       "context parallelism is",
       {{"context_parallel_load_balancer", "headtail"_t}, {"context_parallel_rotate_method", "allgather"_t}},
       kBehindSwitch},
      {"parallelism", "tensor parallelism inside experts is", {{"expert_tensor_parallel_degree", 1_i}}},
      {"activation_checkpoint",
       "a finer choice of what is computed again is",
       {{"per_op_sac_force_recompute_mm_shapes_by_fqns", Texts{"moe.router.gate"}},
        {"early_stop", false},
        {"visualize_memory_budget_pareto", false},
        {"preserve_rng_state", true},
        {"determinism_check", "default"_t},
        {"debug", false}},
       kBehindSwitch},
      {"compile",
       "choosing what torch.compile compiles is",
       {{"components", Texts{"model", "loss"}}, {"backend", "inductor"_t}}},
      {"checkpoint",
       "fault tolerance by torchft is",
       {{"enable_ft_dataloader_checkpoints", true}},
       kBehindSwitch},
      {"metrics", "logging from every rank is", {{"save_for_all_ranks", false}}},
      {"metrics", "Weights & Biases is", {{"enable_wandb", false}}},
      {"comm", "communication without other ranks is", {{"mode", "default"_t}}},
      {"quantize.linear.float8",
       "float8 is",
       {{"enable_fsdp_float8_all_gather", false},
        {"precompute_float8_dynamic_scale_for_fsdp", false},
        {"recipe_name", ""_t},
        {"filter_fqns", Texts{}},
        {"emulate", false}},
       kBehindSwitch},
      {"quantize.linear.mx",
       "MXFP8 is",
       {{"mxfp8_dim1_cast_kernel_choice", "triton"_t},
        {"recipe_name", "mxfp8_cublas"_t},
        {"filter_fqns", Texts{"output"}}},
       kBehindSwitch},
      {"quantize.grouped_mm.float8", "float8 is", {{"fqns", Texts{}}}, kBehindSwitch},
      {"quantize.grouped_mm.mx", "MXFP8 is", {{"fqns", Texts{}}}, kBehindSwitch},
      {"memory_estimation", "memory estimation is", {{"enable", false}}},
      {"memory_estimation", "memory estimation is", {{"disable_fake_mode", false}}, kBehindSwitch},
      {"fault_tolerance", "fault tolerance by torchft is", {{"enable", false}}},
      {"fault_tolerance",
       "fault tolerance by torchft is",
       {{"process_group", "gloo"_t},
        {"process_group_timeout_ms", 10000_i},
        {"replica_id", 0_i},
        {"group_size", 0_i},
        {"min_replica_size", 1_i},
        {"semi_sync_method", ""_t}},
       kBehindSwitch},
      {"experimental", "loading Python modules is", {{"custom_import", ""_t}, {"custom_args_module", ""_t}}},
      {"validation.dataloader",
       "a data loader of several processes is",
       {{"num_workers", 0_i}, {"persistent_workers", false}, {"pin_memory", false}}},
      {"debug", "deterministic mode that only warns is", {{"deterministic_warn_only", false}}},
      {"debug", "a mixture of experts is", {{"moe_force_load_balance", false}}},
  };
  return list;
}

}  // namespace

const std::vector<UnsupportedKey>& unsupported_keys() {
  static const std::vector<UnsupportedKey> list = [] {
    std::vector<UnsupportedKey> keys;
    for (const Group& group : groups())
      for (const auto& [name, off] : group.keys) {
        FieldRule rule;
        rule.unsupported = group.feature;
        keys.push_back({group.section,
                        {.name = name,
                         .type = type_of(off),
                         .optional = false,
                         .default_value = off,
                         .meaning = "torchtitan's",
                         .rule = rule,
                         .get = nullptr,
                         .set = nullptr},
                        group.behind_switch});
      }
    return keys;
  }();
  return list;
}

}  // namespace rondo

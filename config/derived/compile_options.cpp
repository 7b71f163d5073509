#include "config/derived/compile_options.h"

#include <array>

#include "config/derived/batch.h"
#include "parallel/mesh.h"

namespace rondo {

MemoryPolicy policy_of_mode(ActivationCheckpointMode mode) {
  constexpr std::array kPolicies = {MemoryPolicy::none, MemoryPolicy::selective, MemoryPolicy::full,
                                    MemoryPolicy::budget};  // in the order of the modes
  return kPolicies[static_cast<std::size_t>(mode)];
}

MemoryPolicy memory_policy(const JobConfig& config) {
  return config.compile.memory_policy.value_or(policy_of_mode(config.activation_checkpoint.mode));
}

ReshardAfterForward reshard_after_forward(const JobConfig& config) {
  const Parallelism& p = config.parallelism;
  const bool by_default = p.fsdp_reshard_after_forward == ReshardAfterForward::all_but_last;
  if (!by_default || !follows_schedule(config)) return p.fsdp_reshard_after_forward;
  return p.has_pipeline() ? ReshardAfterForward::never : ReshardAfterForward::always;
}

std::optional<std::int64_t> loss_chunks(const JobConfig& config) {
  const Compile& c = config.compile;
  return c.numerics == Numerics::rounds && c.loss_chunks >= 0 ? std::optional(c.loss_chunks) : std::nullopt;
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
  options.cpu_offload_budget_gib = c.cpu_offload_budget_gb;
  options.cpu_offload_defer_n_layers = c.cpu_offload_defer_n_layers;
  options.cpu_offload_prefetch_n_layers = c.cpu_offload_prefetch_n_layers;
  if (c.enable_fsdp_ag_rs_overlap) options.gather_group_suffix = kGatherGroupSuffix;
  if (config.parallelism.enable_async_tensor_parallel)
    options.tensor_parallel_pieces = c.tensor_parallel_pieces;
  options.reshard_after_forward = reshard_after_forward(config);
  options.early_step_in_backward = config.optimizer.early_step_in_backward;
  options.state_on_host = config.training.enable_cpu_offload;
  options.float8_weight_gathers = config.float8_linear.enable_fsdp_float8_all_gather;
  return options;
}

}  // namespace rondo

// Ways to run a job, as configurations, and the flags that lead to them. Pure functions without
// LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct Variant {
  JobConfig config;
  std::int64_t world = 1;
};

// Returns the flags that turn `job` into `variant`, in the order of the sections, with "--world N"
// last if the ranks differ.
std::vector<std::string> flags_between(const Variant& job, const Variant& variant);

// Returns what differs in training beyond rounding, in words: "moments in bfloat16". It is empty if
// `variant` trains as `job` does.
std::vector<std::string> training_changes(const Variant& job, const Variant& variant);

// Returns pipeline schedules, the job's own first. Each has 1, 2, 4 or 8 stages a rank, as far as
// it supports that and the layers divide evenly. Returns only the job if it has no pipeline or a
// schedule from a file.
std::vector<Variant> pipelines(const Variant& job);

// Switches parallelism.fsdp_gradient_sync. "microbatch" takes less memory, since "step" keeps whole
// gradients until the end of the step; "step" sends less.
Variant with_other_gradient_sync(Variant job);

// Keeps the moments of the optimizer in bf16, if parameters are in fp32.
Variant with_bf16_moments(Variant job);

// Sets the layout of layers, in Megatron's format.
Variant with_layout(Variant job, const std::string& layout);
// Limits the microbatches of a stage between I and W to `most`.
Variant with_pending(Variant job, std::int64_t most);
// Sets a memory policy: activation_checkpoint.mode if that has it and compile.memory_policy is
// "auto". Resets the settings of other policies.
Variant with_policy(Variant job, MemoryPolicy policy);
// Returns memory policies without settings of their own, those that save least first. Offloading is
// the last one, and not for pipelines.
std::vector<Variant> memory_policies(const Variant& job);

// Returns the job with `layers` layers. Budgets in bytes are scaled with them.
Variant with_layers(const Variant& job, std::int64_t layers);
std::int64_t layer_count(const JobConfig& config);
// Returns the minimum number of layers that the model's rules allow.
std::int64_t fewest_layers(const JobConfig& config);

}  // namespace rondo

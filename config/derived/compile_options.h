// Compile options of a configuration.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/options.h"
#include "config/schema/job_config.h"

namespace rondo {

// Returns the memory policy that corresponds to a mode of activation checkpointing.
MemoryPolicy policy_of_mode(ActivationCheckpointMode mode);
// Resolves compile.memory_policy and activation_checkpoint.mode.
MemoryPolicy memory_policy(const JobConfig& config);

// Resolves parallelism.fsdp_reshard_after_forward: "default" is never in a pipeline, as in
// torchtitan.
ReshardAfterForward reshard_after_forward(const JobConfig& config);

// Returns the chunks of a loss; 0: the fewest that keep a chunk's logits at 1 GiB or below.
// nullopt: losses are whole.
std::optional<std::int64_t> loss_chunks(const JobConfig& config);

// Returns the options for graphs that run on `device`.
CompileOptions compile_options(const JobConfig& config, TargetDevice device);

}  // namespace rondo

// The options of a compilation that follow from a configuration.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/options.h"
#include "config/schema/job_config.h"

namespace rondo {

// The memory policy of a recorded graph that a mode of activation checkpointing means.
MemoryPolicy policy_of_mode(ActivationCheckpointMode mode);
// What compile.memory_policy and activation_checkpoint.mode come to.
MemoryPolicy memory_policy(const JobConfig& config);

// What parallelism.fsdp_reshard_after_forward comes to: "default" is never in a pipeline, as in torchtitan.
ReshardAfterForward reshard_after_forward(const JobConfig& config);

// Chunks of a loss; 0: as few as keep a chunk's logits at 1 GiB or below. nullopt: losses are whole.
std::optional<std::int64_t> loss_chunks(const JobConfig& config);

// For graphs that run on `device`.
CompileOptions compile_options(const JobConfig& config, TargetDevice device);

}  // namespace rondo

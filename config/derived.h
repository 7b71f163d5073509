// Numbers that follow from a configuration and the number of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/options.h"
#include "config/schema/job_config.h"
#include "datasets/context_split.h"
#include "parallel/mesh.h"

namespace rondo {

// How the ranks and the batch are divided.
struct Layout {
  Mesh mesh;
  std::int64_t global_batch_size = 1;  // sequences of a step over all ranks
  std::int64_t microbatch_size = 1;    // sequences of a rank in one microbatch
  std::int64_t microbatches = 1;       // of one rank in a step; more than 1: a pipeline's, or accumulation

  std::int64_t data_parallel() const { return mesh.degree(kDataAxes); }
};

// The degrees as plans and checkpoints name them: {"data_parallel_shard", 8}, ...
std::vector<std::pair<const char*, std::int64_t>> named_degrees(const Mesh& mesh);

// Of the ranks that share layers, and sequences.
struct ShareDegrees {
  std::int64_t tensor = 1, context = 1;
};
// A rule between keys that does not hold.
struct BrokenRule {
  std::vector<std::string> keys;  // the one to blame first
  std::string rule;
};
// Heads, hidden widths, tokens or experts that ranks cannot share, each having a whole number of them; and
// what they cannot share in float8 (float8.h).
std::vector<BrokenRule> broken_shares(const JobConfig& config, const ShareDegrees& degrees);

// How ranks that share sequences divide the tokens of each.
ContextBalance context_balance(const Parallelism& parallelism);

// The types that weights are gathered and computed in, and that gradients are reduced in: what the keys of
// mixed precision say, or float64 where training.dtype says so.
Precision compute_dtype(const JobConfig& config);
Precision reduce_dtype(const JobConfig& config);
// Of the optimizer's moments: training.dtype, or bfloat16 beside float32 where optimizer.implementation says
// so.
Precision moment_dtype(const JobConfig& config);

// Sequences of a rank in one microbatch: of a pipeline, or else training.local_batch_size.
std::int64_t microbatch_size(const JobConfig& config);
// Microbatches of a step, where that is the same for any number of ranks, and whole.
std::optional<std::int64_t> known_microbatches(const JobConfig& config);

// Error(ExitCode::config), with the arithmetic, where the degrees do not make `world_size`, the global batch
// cannot be divided, or a pipeline's schedule cannot have so many microbatches.
Layout resolve_layout(const JobConfig& config, std::int64_t world_size);

// The memory policy of a recorded graph that a mode of activation checkpointing means.
MemoryPolicy policy_of_mode(ActivationCheckpointMode mode);
// What compile.memory_policy and activation_checkpoint.mode come to.
MemoryPolicy memory_policy(const JobConfig& config);

// What job.device comes to for this program, on this machine. Throws Error(environment) where a GPU is
// requested and the program was built without CUDA, or the machine shows none.
TargetDevice device_of(const JobConfig& config);
// The rule behind it.
TargetDevice choose_device(std::optional<TargetDevice> requested, bool built_with_cuda, int gpus);

// What parallelism.fsdp_reshard_after_forward comes to: "default" is never in a pipeline, as in torchtitan.
ReshardAfterForward reshard_after_forward(const JobConfig& config);

// For graphs that run on `device`.
CompileOptions compile_options(const JobConfig& config, TargetDevice device);

// Where the data lies. Of validation "": the documents held out of training.
std::string training_path(const JobConfig& config);
std::string validation_path(const JobConfig& config);
// The data sets that have a name.
std::vector<std::string> dataset_names(const JobConfig& config);
// Throws Error(data), with what to do, where a data set is at none of the places above because nobody said
// where it lies.
void require_datasets(const JobConfig& config);
// Steps of one validation, of data with so many samples. At least 1.
std::int64_t validation_steps(const JobConfig& config, const Layout& layout, std::int64_t samples);

// "bytes", or the path of tokenizer files: what training.tokenizer comes to.
std::string tokenizer_name(const JobConfig& config);

// The folder of the run's own checkpoints.
std::filesystem::path checkpoint_root(const JobConfig& config);

// The Hugging Face folder that checkpoint.initial_load_in_hf reads.
std::string initial_hugging_face_folder(const JobConfig& config);

// The lengths of the three phases of the learning rate; they add up to the length of the schedule.
struct ScheduleSteps {
  std::int64_t warmup = 0;
  std::int64_t stable = 0;
  std::int64_t decay = 0;
};

// The warm-up is at most the schedule. The decay is lr_scheduler.decay_ratio of the schedule, rounded to the
// nearest step, but at most what the warm-up leaves.
ScheduleSteps schedule_steps(const JobConfig& config);

}  // namespace rondo

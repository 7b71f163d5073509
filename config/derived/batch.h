// How sequences of a step are divided into microbatches, and their tokens among ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema/job_config.h"
#include "datasets/context_split.h"

namespace rondo {

// Returns how context-parallel ranks divide the tokens of a sequence.
ContextBalance context_balance(const Parallelism& parallelism);

// Returns the sequences of a step over all ranks: training.global_batch_size, or with -1
// training.local_batch_size for each data-parallel rank.
std::int64_t global_batch_size(const Training& training, std::int64_t data_parallel);
// Returns the microbatches into which a rank without a pipeline divides its local batch
// (parallelism.overlapped_microbatches). 1 with a pipeline.
std::int64_t overlapped_microbatches(const JobConfig& config);
// Returns whether a step is one pass of a schedule (config/derived/pipeline_layout.h).
bool follows_schedule(const JobConfig& config);
// Returns the sequences per rank and microbatch: of a pipeline, of overlapped microbatches, or
// training.local_batch_size.
std::int64_t microbatch_size(const JobConfig& config);
// Returns the key to change for another microbatch_size.
const char* microbatch_key(const JobConfig& config);
// Returns the microbatches of a step if they are whole and equal for any number of ranks.
std::optional<std::int64_t> known_microbatches(const JobConfig& config);

}  // namespace rondo

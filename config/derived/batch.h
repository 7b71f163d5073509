// How the sequences of a step are divided among microbatches, and the tokens of each among ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema/job_config.h"
#include "datasets/context_split.h"

namespace rondo {

// How ranks that share sequences divide the tokens of each.
ContextBalance context_balance(const Parallelism& parallelism);

// Sequences of a rank in one microbatch: of a pipeline, or else training.local_batch_size.
std::int64_t microbatch_size(const JobConfig& config);
// Microbatches of a step, where that is the same for any number of ranks, and whole.
std::optional<std::int64_t> known_microbatches(const JobConfig& config);

}  // namespace rondo

// The division of a run by pipeline parallelism: the layers of each stage, and the actions of each
// rank in a step. A function of the configuration and the number of microbatches, so it is equal on
// all ranks.
//
// A run without a pipeline whose microbatches overlap (parallelism.overlapped_microbatches) is a
// pipeline of one rank with one stage, the whole model.
//
// A step is one pass of the schedule over its global_batch_size / (data-parallel degree *
// pipeline_parallel_microbatch_size) microbatches. Microbatch m has the same rows as accumulation
// microbatch m of a run without a pipeline whose local_batch_size is the microbatch size
// (datasets/loader.h, the data law).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/derived/layout.h"
#include "config/schema/job_config.h"
#include "models/parts/parameter_table.h"
#include "parallel/pipeline/prove.h"

namespace rondo {

struct PipelineLayout {
  std::vector<StagePart> stages;  // parts of the model, in order
  pipeline::Program program;      // lowered; indexed by the coordinate on Axis::pp
  pipeline::Proof proof;
};

// Returns nullopt if a step follows no schedule (config/derived/batch.h). Throws Error(config) for
// the first of broken_pipeline, or if the program of a CSV file cannot be proven.
std::optional<PipelineLayout> pipeline_layout(const JobConfig& config, const Layout& layout);

// Returns 16 hex digits over the whole layout. Ranks compare them, since each reads its own copy of
// a CSV file.
std::string fingerprint(const PipelineLayout& layout);

// Returns the broken rules of schedule and stages; with `microbatches` also whether the schedule
// accepts that number. Reads and proves a CSV file. Empty if a step follows no schedule.
std::vector<BrokenRule> broken_pipeline(const JobConfig& config, std::optional<std::int64_t> microbatches);

// Returns a warning if there are fewer microbatches than stages, or "".
std::string few_microbatches(const JobConfig& config, std::optional<std::int64_t> microbatches);

}  // namespace rondo

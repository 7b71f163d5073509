// How pipeline parallelism divides a run: which layers each stage holds, and what each rank of a pipeline
// does in one step. A function of the configuration and the number of microbatches, so equal on all ranks.
//
// A step is one pass of the schedule over all of its microbatches: global_batch_size / (data-parallel degree
// * pipeline_parallel_microbatch_size) of them. Microbatch m has the rows of accumulation microbatch m of a
// run without a pipeline whose local_batch_size is that size (datasets/loader.h, the data law).
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
  std::vector<StagePart> stages;  // what each stage holds, in order
  pipeline::Program program;      // lowered; its ranks are the coordinates of Axis::pp
  pipeline::Proof proof;
};

// Absent with pipeline_parallel_degree 1. Throws Error(config) for the first of broken_pipeline, and where
// the program of a CSV file cannot be proven.
std::optional<PipelineLayout> pipeline_layout(const JobConfig& config, const Layout& layout);

// 16 hex digits of all of it: what ranks that read copies of a CSV file compare.
std::string fingerprint(const PipelineLayout& layout);

// What is wrong with schedule and stages, and what no pipeline can do; with `microbatches` also whether the
// schedule can have so many. Reads and proves a CSV file. Empty with pipeline_parallel_degree 1.
std::vector<BrokenRule> broken_pipeline(const JobConfig& config, std::optional<std::int64_t> microbatches);

// A warning where there are fewer microbatches than stages, or "".
std::string few_microbatches(const JobConfig& config, std::optional<std::int64_t> microbatches);

}  // namespace rondo

// The division of a run's ranks and of a step's batch.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "config/schema/job_config.h"
#include "parallel/mesh.h"

namespace rondo {

struct Layout {
  Mesh mesh;
  std::int64_t global_batch_size = 1;  // sequences of a step over all ranks
  std::int64_t microbatch_size = 1;    // sequences of a rank in one microbatch
  std::int64_t microbatches = 1;       // per rank and step; 1 without pipeline and accumulation

  std::int64_t data_parallel() const { return mesh.degree(kDataAxes); }
};

// Resolves the layout for `world_size` ranks. Throws Error(config), with the arithmetic, if the
// product of the degrees is not `world_size`, the global batch cannot be divided, or the pipeline's
// schedule cannot have the resulting number of microbatches.
Layout resolve_layout(const JobConfig& config, std::int64_t world_size);

// Returns the degrees with the names of plans and checkpoints: {"data_parallel_shard", 8}, ...
std::vector<std::pair<std::string, std::int64_t>> named_degrees(const Mesh& mesh);

// Returns the steps of one validation over `samples` samples: validation.steps, but no more than
// read each sample once; at least 1. The last step may have fewer rows.
std::int64_t validation_steps(const JobConfig& config, const Layout& layout, std::int64_t samples);

}  // namespace rondo

// How the ranks of a run and the batch of a step are divided.
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
  std::int64_t microbatches = 1;       // of one rank in a step; more than 1: a pipeline's, or accumulation

  std::int64_t data_parallel() const { return mesh.degree(kDataAxes); }
};

// Error(ExitCode::config), with the arithmetic, where the degrees do not make `world_size`, the global batch
// cannot be divided, or a pipeline's schedule cannot have so many microbatches.
Layout resolve_layout(const JobConfig& config, std::int64_t world_size);

// The degrees as plans and checkpoints name them: {"data_parallel_shard", 8}, ...
std::vector<std::pair<const char*, std::int64_t>> named_degrees(const Mesh& mesh);

// Steps of one validation, of data with so many samples. At least 1.
std::int64_t validation_steps(const JobConfig& config, const Layout& layout, std::int64_t samples);

}  // namespace rondo

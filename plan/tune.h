// Which algorithm of cuBLASLt computes each product of a job's step fastest, measured on the GPU that is
// here: what `rondo tune` does. The job itself is not run: its step is recorded and improved as a rank would
// do it, and each distinct product runs alone on drawn numbers.
#pragma once

#include <cstdint>
#include <functional>

#include "config/matmul_table.h"
#include "config/schema/job_config.h"

namespace rondo {

// Of all ranks of a job of `world`: those of a stage have the products of its first one. `measured` sees each
// row as it comes, in the order of the graph. An algorithm that is less than 1 % faster than LibTorch's
// product is none. Throws Error(environment) where there is no GPU, and what compile_step throws.
MatmulTable tune_matmuls(const JobConfig& config, std::int64_t world,
                         const std::function<void(const MatmulRow&)>& measured);

}  // namespace rondo

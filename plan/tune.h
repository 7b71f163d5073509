// Measures on this machine's GPU which algorithm of cuBLASLt computes each product of a job's step
// fastest: `rondo tune`. The job itself does not run. Its step is traced and optimized as on a
// rank, and each distinct product runs alone on random numbers.
#pragma once

#include <cstdint>
#include <functional>

#include "config/derived/matmul_table.h"
#include "config/schema/job_config.h"

namespace rondo {

// Measures the products of all ranks in a job of `world` ranks. The ranks of a stage have the
// products of its first one. `measured` receives each row when it is done, in graph order. An
// algorithm that is less than 1 % faster than LibTorch's product is not used. Throws
// Error(environment) without a GPU, and as compile_step.
MatmulTable tune_matmuls(const JobConfig& config, std::int64_t world,
                         const std::function<void(const MatmulRow&)>& measured);

}  // namespace rondo

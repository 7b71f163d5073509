// Dtypes of a configuration.
#pragma once

#include "config/schema/job_config.h"

namespace rondo {

// Returns the dtypes of gathered weights and computation, and of gradient reductions: the keys of
// mixed precision, or float64 if training.dtype is float64.
Precision compute_dtype(const JobConfig& config);
Precision reduce_dtype(const JobConfig& config);
// Returns the dtype of the optimizer's moments: training.dtype, or bfloat16 if training.dtype is
// float32 and optimizer.implementation is fused_opt_states_bf16.
Precision moment_dtype(const JobConfig& config);
// Returns whether the update rounds bf16 stochastically: if optimizer.bf16_rounding says so and the
// moments are bfloat16, as they are with parameters in bfloat16.
bool rounds_stochastically(const JobConfig& config);

}  // namespace rondo

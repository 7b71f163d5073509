// The dtypes that follow from the keys of precision.
#pragma once

#include "config/schema/job_config.h"

namespace rondo {

// The types that weights are gathered and computed in, and that gradients are reduced in: what the keys of
// mixed precision say, or float64 where training.dtype says so.
Precision compute_dtype(const JobConfig& config);
Precision reduce_dtype(const JobConfig& config);
// Of the optimizer's moments: training.dtype, or bfloat16 beside float32 where optimizer.implementation says
// so.
Precision moment_dtype(const JobConfig& config);

}  // namespace rondo

#include "config/derived/dtypes.h"

namespace rondo {

Precision compute_dtype(const JobConfig& config) {
  const Training& t = config.training;
  return t.dtype == Precision::float64 ? t.dtype : t.mixed_precision_param;
}

Precision reduce_dtype(const JobConfig& config) {
  const Training& t = config.training;
  return t.dtype == Precision::float64 ? t.dtype : t.mixed_precision_reduce;
}

Precision moment_dtype(const JobConfig& config) {
  const bool narrow = config.optimizer.implementation == OptimizerImplementation::fused_opt_states_bf16;
  return narrow && config.training.dtype == Precision::float32 ? Precision::bfloat16 : config.training.dtype;
}

bool rounds_stochastically(const JobConfig& config) {
  return config.optimizer.bf16_rounding == Bf16Rounding::stochastic &&
         moment_dtype(config) == Precision::bfloat16;
}

}  // namespace rondo

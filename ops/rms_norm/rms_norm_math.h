// The arithmetic of RMSNorm (ops/rms_norm/rms_norm.h), shared by CPU and CUDA. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo::rms_norm {

// The longest row that the CUDA kernel holds in registers.
constexpr std::int64_t kWidestRow = 16384;

RONDO_DEVICE inline float square_root(float x) { return sqrtf(x); }
RONDO_DEVICE inline double square_root(double x) { return sqrt(x); }

// T: float or double.
template <class T>
RONDO_DEVICE inline T inverse_rms(T sum_of_squares, std::int64_t width, T eps) {
  return T(1) / square_root(sum_of_squares / static_cast<T>(width) + eps);
}
template <class T>
RONDO_DEVICE inline T normalized(T x, T inverse_rms, T weight) {
  return x * inverse_rms * weight;
}
// Returns the factor of x in grad_x, from the sum of g * x over the row.
template <class T>
RONDO_DEVICE inline T pull(T sum, std::int64_t width, T inverse_rms) {
  return sum / static_cast<T>(width) * inverse_rms * inverse_rms * inverse_rms;
}
template <class T>
RONDO_DEVICE inline T gradient(T g, T x, T inverse_rms, T pull) {
  return g * inverse_rms - x * pull;
}

}  // namespace rondo::rms_norm

// The arithmetic of RMSNorm (ops/rms_norm/rms_norm.h): what CPU, CUDA and passes share. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo::rms_norm {

// What the CUDA kernel holds in registers. Passes leave wider rows alone.
constexpr std::int64_t kWidestRow = 16384;

RONDO_DEVICE inline float inverse_rms(float sum_of_squares, std::int64_t width, float eps) {
  return 1.0f / sqrtf(sum_of_squares / static_cast<float>(width) + eps);
}
RONDO_DEVICE inline float normalized(float x, float inverse_rms, float weight) {
  return x * inverse_rms * weight;
}
// The factor of x in grad_x, from the sum of g * x over the row.
RONDO_DEVICE inline float pull(float sum, std::int64_t width, float inverse_rms) {
  return sum / static_cast<float>(width) * inverse_rms * inverse_rms * inverse_rms;
}
RONDO_DEVICE inline float gradient(float g, float x, float inverse_rms, float pull) {
  return g * inverse_rms - x * pull;
}

}  // namespace rondo::rms_norm

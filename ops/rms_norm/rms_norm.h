// RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) as one op for each direction, for rows x of width D:
//
//   rondo::rms_norm(x, weight, eps) -> (y, inverse_rms)
//   rondo::rms_norm_backward(grad, x, weight, inverse_rms) -> (grad_x, grad_weight)
//
//   inverse_rms = 1 / sqrt(mean(x^2) + eps)                          f32, [..., 1]
//   y = x * inverse_rms * weight                                     of the wider dtype of x and weight
//   grad_x = inverse_rms * g - x * inverse_rms^3 * mean(g * x)       of x's dtype, where g = grad * weight
//   grad_weight = sum over rows of grad * x * inverse_rms            f32, [D]
//
// x [..., D] and weight [D] are f32 or bf16 each, grad is of y's dtype; rows of x may lie apart, results are
// contiguous. All arithmetic is f32, and results are rounded once. grad_weight is added up in an order that depends
// on the number of rows alone. Neither op has a formula for autograd: passes put them into graphs that have their
// backward already.
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

// Division of many floats by one, which a GPU divides in software.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>

namespace rondo::cuda {

// Divides many numbers by one, with the bits of a division in a third of its instructions: two
// corrections of a product by its exact remainder, as CUDA divides after it has computed the
// reciprocal. Where a remainder can be inexact, it divides.
struct FloatDivisor {
  float divisor, reciprocal;
  bool is_moderate;  // 2^-30 to 2^30

  explicit __device__ FloatDivisor(float d)
      : divisor(d), reciprocal(1 / d), is_moderate(d >= 0x1p-30f && d <= 0x1p30f) {}
  __device__ float divide(float x) const {
    const float size = fabsf(x);
    const bool is_exact = is_moderate && size <= 0x1p60f && (size >= 0x1p-60f || size == 0);
    if (!is_exact) return x / divisor;
    float quotient = x * reciprocal;
    quotient = fmaf(fmaf(-divisor, quotient, x), reciprocal, quotient);
    quotient = fmaf(fmaf(-divisor, quotient, x), reciprocal, quotient);
    return size == 0 ? x : quotient;  // keeps the sign of zero
  }
};

}  // namespace rondo::cuda

// The kernels of ops/rms_norm/rms_norm.h on CUDA: plain addresses, checked by the caller. Launched on
// `stream`, no wait. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct RmsNormRows {
  std::int64_t rows, width;           // at least 1 row; width up to rms_norm::kWidestRow
  Element x_element, weight_element;  // f32 or bf16
  const void* x;
  std::int64_t x_stride;  // elements from row to row
  const void* weight;     // `width`
};

// y is bf16 if both x and weight are, and f32 otherwise; inverse_rms holds `rows`. What is normalized is x,
// or where there is a `sum`, that: x + residual, both in x's dtype with rows side by side.
void rms_norm(const RmsNormRows& in, const void* residual, void* sum, float eps, void* y, float* inverse_rms,
              cudaStream_t stream);

// The sums of that many parts of the rows make grad_weight; `parts` below holds so many times `width`.
std::int64_t rms_norm_parts(std::int64_t rows, std::int64_t width);

// grad has y's dtype, grad_x and grad_sum have x's. grad_sum, with rows side by side, is added to grad_x; it
// may be null.
void rms_norm_backward(const RmsNormRows& in, const void* grad, std::int64_t grad_stride,
                       const float* inverse_rms, const void* grad_sum, void* grad_x, float* parts,
                       float* grad_weight, cudaStream_t stream);

}  // namespace rondo::cuda

// The CUDA kernels of ops/rms_norm/rms_norm.h: plain addresses, checked by the caller. They run on
// `stream` without waiting. No LibTorch.
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
  const void* weight;     // `width` elements
};

// Normalizes x or, if `sum` is set, sum = x + residual; both have x's dtype and contiguous rows. y
// is bf16 if x and weight are, otherwise f32. inverse_rms has `rows` elements.
void rms_norm(const RmsNormRows& in, const void* residual, void* sum, float eps, void* y, float* inverse_rms,
              cudaStream_t stream);

// Returns the number of parts of the rows whose sums make grad_weight. `parts` below holds that
// number times `width`.
std::int64_t rms_norm_parts(std::int64_t rows, std::int64_t width);

// grad has y's dtype; grad_x and grad_sum have x's. grad_sum, with contiguous rows, is added to
// grad_x; it may be null.
void rms_norm_backward(const RmsNormRows& in, const void* grad, std::int64_t grad_stride,
                       const float* inverse_rms, const void* grad_sum, void* grad_x, float* parts,
                       float* grad_weight, cudaStream_t stream);

}  // namespace rondo::cuda

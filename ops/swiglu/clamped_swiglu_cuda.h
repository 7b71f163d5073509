// The CUDA kernels of ops/swiglu/clamped_swiglu.h: plain addresses of contiguous memory, f32 or
// bf16, checked by the caller. They run on `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct ClampedPairs {
  std::int64_t rows, width;  // width: pairs of a row; at least 1 each
  Element element;
  const void* gate_up;  // [rows, width, 2]
  // On the device: rows from it on are not read and are zero in results. Null: all rows are valid.
  const std::int32_t* count;
  float limit, slope;
};

// y [rows, width].
void clamped_swiglu(const ClampedPairs& in, void* y, cudaStream_t stream);
// grad [rows, width]; grad_gate_up [rows, width, 2], which may be gate_up.
void clamped_swiglu_backward(const ClampedPairs& in, const void* grad, void* grad_gate_up,
                             cudaStream_t stream);

}  // namespace rondo::cuda

// The CUDA kernels of ops/swiglu/clamped_swiglu.h: plain addresses of contiguous memory, f32 or
// bf16, checked by the caller. They run on `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct ClampedPairs {
  std::int64_t count;  // of pairs, at least 1
  Element element;
  const void* gate_up;  // [count, 2]
  float limit, slope;
};

// y [count].
void clamped_swiglu(const ClampedPairs& in, void* y, cudaStream_t stream);
// grad [count]; grad_gate_up [count, 2], which may be gate_up.
void clamped_swiglu_backward(const ClampedPairs& in, const void* grad, void* grad_gate_up,
                             cudaStream_t stream);

}  // namespace rondo::cuda

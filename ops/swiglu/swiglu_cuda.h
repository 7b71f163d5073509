// The CUDA kernels of ops/swiglu/swiglu.h: plain addresses, f32 or bf16, checked by the caller.
// They run on `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct SwigluRows {
  std::int64_t rows, width;  // at least 1 each
  Element element;
  const void* gate;
  std::int64_t gate_stride;  // elements from row to row
  const void* up;
  std::int64_t up_stride;
  const std::int32_t* count = nullptr;  // on the device: rows from it on are zero; null: no such rows
};

// The rows of y and of grad are contiguous.
void swiglu(const SwigluRows& in, void* y, cudaStream_t stream);
// The rows of both results are `stride` elements apart.
void swiglu_backward(const SwigluRows& in, const void* grad, void* grad_gate, void* grad_up,
                     std::int64_t stride, cudaStream_t stream);

}  // namespace rondo::cuda

// The CUDA kernels of ops/sums_of_squares/sums_of_squares.h: plain addresses, checked by the
// caller. They run on `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct SquaredTensor {
  const void* x;
  std::int64_t count;  // elements
  std::int32_t index;  // index of its sum
};

// All tensors have `element`, f32 or bf16. chunk_sums has room for squares::chunks_of(count)
// numbers of each. Two launches for every 141 tensors.
void sums_of_squares(Element element, std::span<const SquaredTensor> tensors, double* chunk_sums,
                     double* sums, cudaStream_t stream);

}  // namespace rondo::cuda

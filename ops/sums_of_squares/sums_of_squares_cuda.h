// The kernels of ops/sums_of_squares/sums_of_squares.h on CUDA: plain addresses, checked by the caller.
// Launched on `stream`, no wait. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct SquaredTensor {
  const void* x;
  std::int64_t count;  // elements
  std::int32_t index;  // of its sum
};

// All tensors are of `element`, f32 or bf16. chunk_sums: room for squares::chunks_of(count) of each. Two
// launches for every 141 tensors.
void sums_of_squares(Element element, std::span<const SquaredTensor> tensors, double* chunk_sums,
                     double* sums, cudaStream_t stream);

}  // namespace rondo::cuda

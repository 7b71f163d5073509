// The kernels of ops/sum_of_squares/sum_of_squares.h on CUDA: plain addresses, checked by the caller.
// Launched on `stream`, no wait. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// x: `count` elements, f32 or bf16; chunk_sums: room for squares::chunks_of(count). REQUIRES: count > 0.
void sum_of_squares(Element element, const void* x, std::int64_t count, double* chunk_sums, double* sum,
                    cudaStream_t stream);

}  // namespace rondo::cuda

// The CUDA kernel of ops/add_widened/add_widened.h: plain addresses, checked by the caller. Runs on
// `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// Both are contiguous, f32 or bf16. REQUIRES: 0 < count < 2^42.
void add_widened(void* sum, Element of_sum, const void* x, Element of_x, std::int64_t count,
                 cudaStream_t stream);

}  // namespace rondo::cuda

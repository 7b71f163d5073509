// The CUDA kernel of ops/normal_draws/normal_draws.h. Runs on `stream` without waiting. No
// LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"
#include "ops/normal_draws/normal_draws_math.h"

namespace rondo::cuda {

// Sets x[i] to the draw of element first + i, rounded to fp32 and then to the element's type, for i
// < count.
void draw(Element element, const NormalDraws& draws, std::int64_t first, std::int64_t count, void* x,
          cudaStream_t stream);

}  // namespace rondo::cuda

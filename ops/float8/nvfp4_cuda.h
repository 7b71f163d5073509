// The CUDA kernel of ops/float8/nvfp4.h. Runs on `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/float8/nvfp4_math.h"

namespace rondo::cuda {

void quantize_nvfp4(const nvfp4::Job& job, cudaStream_t stream);

}  // namespace rondo::cuda

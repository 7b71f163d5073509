// The CUDA kernel of ops/float8/nvfp4.h. Runs on `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rondo::cuda {

struct Nvfp4Job {
  const float* x;  // [rows, columns]
  std::int64_t rows, columns;
  bool squares;
  const float* largest;
  const std::int64_t* bits;  // nullptr: rounds to nearest
  std::int64_t stream;
  std::uint8_t* values;
  float* scales;
};

void quantize_nvfp4(const Nvfp4Job& job, cudaStream_t stream);

}  // namespace rondo::cuda

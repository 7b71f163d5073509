// The kernel of ops/rope/rope.h on CUDA: plain addresses, checked by the caller. Launched on `stream`, no
// wait. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct RopeHeads {
  std::int64_t batch, time, heads, width;               // of x and y, none of them 0; y is contiguous
  std::int64_t batch_stride, time_stride, head_stride;  // of x, in elements; the last one is 1
  Element element;                                      // of x and y: f32 or bf16
  bool one_table;  // cos and sin [T, D / 2] for all of the batch, not [B, T, D / 2]
};

void rope(const RopeHeads& in, const void* x, const float* cos, const float* sin, bool interleaved,
          bool inverse, void* y, cudaStream_t stream);

}  // namespace rondo::cuda

// The CUDA kernel of ops/rope/rope.h: plain addresses, checked by the caller. Runs on `stream`
// without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

constexpr std::int64_t kMaxRotatedInPlace = 4096;

struct RopeHeads {
  std::int64_t batch, time, heads, width;               // of x and y, all positive; y is contiguous
  std::int64_t rotated;                                 // the last elements of a head, 0 or more
  std::int64_t batch_stride, time_stride, head_stride;  // of x, in elements; the last one is 1
  Element element;                                      // of x and y: f32 or bf16
  bool one_table;  // cos and sin are [T, K / 2] for the whole batch, not [B, T, K / 2]
};

// y may be x if all heads of x are contiguous.
// REQUIRES: time * heads * (width / 16 + 2) < 2^31; rotated <= kMaxRotatedInPlace if y is x.
void rope(const RopeHeads& in, const void* x, const float* cos, const float* sin, bool interleaved,
          bool inverse, void* y, cudaStream_t stream);

}  // namespace rondo::cuda

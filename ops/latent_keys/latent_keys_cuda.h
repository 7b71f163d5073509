// The CUDA kernels of ops/latent_keys/latent_keys.h: plain addresses, checked by the caller. Run on
// `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// Tokens and heads, all positive; the widths of a head are 0 or more.
struct LatentHeads {
  std::int64_t batch, time, heads, plain, rotated, value;
  Element element;  // f32 or bf16
};

// Heads [B, S, H, D] in memory, with strides in elements. The last stride is 1.
struct StridedHeads {
  const void* data;
  std::int64_t batch, time, head;
};

// Results are contiguous. REQUIRES: time * (heads + 1) * (the width of a head of the result / 16 +
// 2) < 2^31, and as much for the rotated elements.
void latent_keys(const LatentHeads& in, const StridedHeads& kv, const StridedHeads& rotated, void* k,
                 cudaStream_t stream);
void latent_keys_backward(const LatentHeads& in, const StridedHeads& grad_k, const StridedHeads& grad_v,
                          void* grad_kv, void* grad_rotated, cudaStream_t stream);

}  // namespace rondo::cuda

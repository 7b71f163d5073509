// The kernel of ops/adamw/adamw.h on CUDA: plain addresses, checked by the caller. Launched on `stream`, no
// wait. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <span>

#include "ops/adamw/adamw_math.h"
#include "ops/kernel/element.h"

namespace rondo::cuda {

struct UpdatedTensor {
  void *parameter, *exp_avg, *exp_avg_sq;
  const void* gradient;
  std::int64_t count;  // elements
};

// f32 or bf16 each; beside parameters of bf16 all are.
struct UpdatedElements {
  Element parameter, moments, gradient;
  auto operator<=>(const UpdatedElements&) const = default;
};

// On the device, f32 [].
struct AdamWScalars {
  const float *step, *learning_rate, *gradient_scale, *found_inf;
};

// All tensors are of these elements. A launch for every 90 tensors.
void adamw(const UpdatedElements& elements, std::span<const UpdatedTensor> tensors,
           const AdamWScalars& scalars, const AdamWOptions& options, cudaStream_t stream);

}  // namespace rondo::cuda

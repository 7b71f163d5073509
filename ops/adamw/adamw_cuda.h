// The CUDA kernel of ops/adamw/adamw.h: plain addresses, checked by the caller. Runs on `stream`
// without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <span>

#include "ops/adamw/adamw_math.h"
#include "ops/kernel/element.h"
#include "ops/random/stochastic_rounding.h"

namespace rondo::cuda {

struct UpdatedTensor {
  void *parameter, *exp_avg, *exp_avg_sq;
  const void* gradient;
  std::int64_t count;  // elements
};
struct RoundedTensor : UpdatedTensor {
  RoundingDraws draws;
};

// f32 or bf16 each; with bf16 parameters all are bf16.
struct UpdatedElements {
  Element parameter, moments, gradient;
  auto operator<=>(const UpdatedElements&) const = default;
};

// On the device, f32 [].
struct AdamWScalars {
  const float *step, *learning_rate, *gradient_scale, *found_inf;
};

// Updates tensors with these element types, in one launch for every 90 tensors. Rounds to nearest.
void adamw(const UpdatedElements& elements, std::span<const UpdatedTensor> tensors,
           const AdamWScalars& scalars, const AdamWOptions& options, cudaStream_t stream);
// Rounds bf16 stochastically, in one launch for every 47 tensors. REQUIRES: moments in bf16.
void adamw(const UpdatedElements& elements, std::span<const RoundedTensor> tensors,
           const AdamWScalars& scalars, const AdamWOptions& options, cudaStream_t stream);

}  // namespace rondo::cuda

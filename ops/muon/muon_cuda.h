// The CUDA kernels of ops/muon/muon.h: plain addresses, checked by the caller. Run on `stream`
// without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <span>

#include "ops/kernel/element.h"
#include "ops/muon/muon_math.h"
#include "ops/random/stochastic_rounding.h"

namespace rondo::cuda {

struct MomentumTensor {
  void* momentum;
  const void* gradient;
  void* update;
  std::int64_t count;  // elements
};
struct RoundedMomentumTensor : MomentumTensor {
  RoundingDraws draws;
};
struct AppliedTensor {
  void* parameter;
  const void* update;
  std::int64_t count;  // elements
  double scale;
};
struct RoundedAppliedTensor : AppliedTensor {
  RoundingDraws draws;
};

// f32 or bf16 each.
struct MomentumElements {
  Element momentum, gradient, update;
  auto operator<=>(const MomentumElements&) const = default;
};
struct AppliedElements {
  Element parameter, update;
  auto operator<=>(const AppliedElements&) const = default;
};

// On the device, f32 [].
struct MomentumScalars {
  const float *gradient_scale, *found_inf, *step;
};
struct AppliedScalars {
  const float *learning_rate, *found_inf, *step;
};

// Updates momentums with these element types and sets updates, in one launch for every 110 tensors.
// Rounds to nearest.
void muon_momentum(const MomentumElements& elements, std::span<const MomentumTensor> tensors,
                   const MomentumScalars& scalars, const MuonOptions& options, cudaStream_t stream);
// Rounds momentums stochastically, in one launch for every 52 tensors. REQUIRES: momentums in bf16.
void muon_momentum(const MomentumElements& elements, std::span<const RoundedMomentumTensor> tensors,
                   const MomentumScalars& scalars, const MuonOptions& options, cudaStream_t stream);

// The same for parameters and orthogonalized updates.
void muon_apply(const AppliedElements& elements, std::span<const AppliedTensor> tensors,
                const AppliedScalars& scalars, double weight_decay, cudaStream_t stream);
void muon_apply(const AppliedElements& elements, std::span<const RoundedAppliedTensor> tensors,
                const AppliedScalars& scalars, double weight_decay, cudaStream_t stream);

}  // namespace rondo::cuda

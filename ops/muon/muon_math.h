// The arithmetic of Muon's element-wise parts (ops/muon/muon.h), shared by CPU and CUDA: in fp32,
// or in fp64 for fp64 elements. No LibTorch.
//
// REQUIRES: includers are compiled without contraction of products and sums. Then all operations
// are + - * / and fused multiply-adds, which IEEE 754 rounds the same everywhere.
#pragma once

#include <cstdint>

#include "ops/kernel/arithmetic.h"
#include "ops/kernel/device.h"

namespace rondo {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;

  bool operator==(const MuonOptions&) const = default;
};

namespace muon {

// The values of an element that have draws of their own (ops/random/stochastic_rounding.h).
enum Kind : std::uint32_t { kParameter, kMomentum };

constexpr std::int64_t kChunk = 16384;  // elements of a CPU task, or of a block

// An interpolation by a weight, from the nearer end, as LibTorch's lerp computes it.
template <class Real>
struct Interpolation {
  bool from_first;
  Real factor;

  explicit RONDO_DEVICE Interpolation(Real weight)
      : from_first(weight < Real(0.5)), factor(from_first ? weight : weight - Real(1)) {}
  RONDO_DEVICE Real between(Real first, Real second) const {
    return fused(factor, second - first, from_first ? first : second);
  }
};

// The factors shared by all elements of a step.
template <class Real>
struct MomentumFactors {
  Real gradient_scale;
  Interpolation<Real> to_gradient, to_momentum;
  bool nesterov;

  RONDO_DEVICE MomentumFactors(const MuonOptions& options, float scale)
      : gradient_scale(scale),
        to_gradient(static_cast<Real>(1 - options.momentum)),
        to_momentum(static_cast<Real>(options.momentum)),
        nesterov(options.nesterov) {}
};

template <class Real>
struct Accumulated {
  Real momentum, update;
};

// `scaled` is the gradient divided by gradient_scale. A caller may omit a division by 1, which
// keeps every bit.
template <class Real>
RONDO_DEVICE inline Accumulated<Real> accumulated(const MomentumFactors<Real>& f, Real momentum,
                                                  Real scaled) {
  const Real now = f.to_gradient.between(momentum, scaled);
  return {now, f.nesterov ? f.to_momentum.between(scaled, now) : now};
}

// The factors shared by all elements of a parameter.
template <class Real>
struct ApplyFactors {
  Real kept, minus_step_size;

  RONDO_DEVICE ApplyFactors(double weight_decay, double scale, float learning_rate)
      : kept(static_cast<Real>(1 - static_cast<double>(learning_rate) * weight_decay)),
        minus_step_size(static_cast<Real>(-(static_cast<double>(learning_rate) * scale))) {}
};

template <class Real>
RONDO_DEVICE inline Real applied(const ApplyFactors<Real>& f, Real parameter, Real update) {
  return fused(update, f.minus_step_size, parameter * f.kept);
}

}  // namespace muon
}  // namespace rondo

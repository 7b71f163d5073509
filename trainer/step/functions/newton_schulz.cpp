#include "trainer/step/functions/newton_schulz.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>

namespace rondo {

using at::Tensor;

Tensor orthogonalized(const Tensor& matrices, std::int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kLeastNorm = 1e-7;
  const bool is_tall = matrices.size(1) > matrices.size(2);
  Tensor x = is_tall ? matrices.transpose(1, 2) : matrices;
  const Tensor norms = at::sqrt(at::sum(x * x, {1, 2}, /*keepdim=*/true));
  x = x / at::clamp_min(norms, kLeastNorm);
  for (std::int64_t i = 0; i < steps; ++i) {
    const Tensor a = at::bmm(x, x.transpose(1, 2));
    x = at::baddbmm(x, at::baddbmm(a, a, a, kB, kC), x, kA);
  }
  return is_tall ? x.transpose(1, 2) : x;
}

}  // namespace rondo

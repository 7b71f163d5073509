#include "trainer/step/functions/load_balance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sign.h>

namespace rondo {

using at::Tensor;

Balanced balance_load(const std::vector<Tensor>& expert_biases, const std::vector<std::int64_t>& rows,
                      const Tensor& tokens_LE, double coeff, const Tensor& found_inf) {
  const Tensor mean_L1 = at::mean(tokens_LE, at::IntArrayRef{1}, /*keepdim=*/true);
  const Tensor change_LE = at::sign(mean_L1 - tokens_LE) * coeff;
  const Tensor centred_LE = change_LE - at::mean(change_LE, at::IntArrayRef{1}, /*keepdim=*/true);
  const Tensor applied_LE = centred_LE * (1 - found_inf);
  Balanced balanced{at::amax(tokens_LE / mean_L1), {}};
  for (std::size_t i = 0; i < expert_biases.size(); ++i)
    balanced.expert_biases.push_back(expert_biases[i] + applied_LE.select(0, rows[i]));
  return balanced;
}

}  // namespace rondo

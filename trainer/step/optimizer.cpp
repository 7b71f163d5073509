#include "trainer/step/optimizer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>

#include <tuple>

namespace rondo {
namespace {

namespace functional = at::functionalization::impl;
using Tensors = std::vector<at::Tensor>;

// From here on a trace reads `now` where it would read what was overwritten.
void stand_for(const Tensors& overwritten, const Tensors& now) {
  for (std::size_t i = 0; i < overwritten.size(); ++i) {
    functional::replace_(overwritten[i], functional::from_functional_tensor(now[i]));
    functional::commit_update(overwritten[i]);
  }
}

}  // namespace

void optimizer_update(const OptimizerState& state, const Tensors& gradients, const at::Tensor& learning_rate,
                      const at::Tensor& gradient_scale, const at::Tensor& found_inf,
                      const AdamWOptions& options) {
  state.step.add_(1 - found_inf);  // the op counts the update being made from 1
  const AdamWOperands operands{state.parameters, state.exp_avgs, state.exp_avg_sqs, gradients,
                               state.step,       learning_rate,  gradient_scale,    found_inf};
  if (!functional::isFunctionalTensor(state.step)) return adamw_(operands, options);
  const auto [parameters, exp_avgs, exp_avg_sqs] = adamw(operands, options);
  stand_for(state.parameters, parameters);
  stand_for(state.exp_avgs, exp_avgs);
  stand_for(state.exp_avg_sqs, exp_avg_sqs);
}

}  // namespace rondo

#include "trainer/step/optimizer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

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
                      const OptimizerOptions& o) {
  constexpr bool kAmsgrad = false, kMaximize = false;
  state.step.add_(1 - found_inf);  // the kernels count the update being made from 1
  const Tensors steps(gradients.size(), state.step);
  const auto call = [&](auto op) {
    return op(state.parameters, gradients, state.exp_avgs, state.exp_avg_sqs, at::TensorList{}, steps,
              learning_rate, o.beta1, o.beta2, o.weight_decay, o.eps, kAmsgrad, kMaximize, gradient_scale,
              found_inf);
  };
  if (!functional::isFunctionalTensor(state.step)) {
    call([&](auto&&... a) { o.decoupled_weight_decay ? at::_fused_adamw_(a...) : at::_fused_adam_(a...); });
    return;
  }
  const auto [parameters, scaled, exp_avgs, exp_avg_sqs, none] = call(
      [&](auto&&... a) { return o.decoupled_weight_decay ? at::_fused_adamw(a...) : at::_fused_adam(a...); });
  stand_for(state.parameters, parameters);
  stand_for(gradients, scaled);
  stand_for(state.exp_avgs, exp_avgs);
  stand_for(state.exp_avg_sqs, exp_avg_sqs);
}

}  // namespace rondo

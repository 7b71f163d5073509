#include "trainer/step/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

#include <tuple>

namespace rondo {

OptimizerState optimizer_update(const OptimizerState& state, const std::vector<at::Tensor>& gradients,
                                const at::Tensor& learning_rate, const at::Tensor& gradient_scale,
                                const at::Tensor& found_inf, const OptimizerOptions& o, bool in_place) {
  constexpr bool kAmsgrad = false, kMaximize = false;
  OptimizerState next = state;
  next.step = state.step + (1 - found_inf);  // the kernels count the update being made from 1
  const std::vector<at::Tensor> steps(gradients.size(), next.step);
  const auto apply = [&](auto op, auto&& parameters, auto&& grads, auto&& exp_avgs, auto&& exp_avg_sqs) {
    return op(parameters, grads, exp_avgs, exp_avg_sqs, at::TensorList{}, steps, learning_rate, o.beta1,
              o.beta2, o.weight_decay, o.eps, kAmsgrad, kMaximize, gradient_scale, found_inf);
  };
  if (in_place) {
    const auto op = [&](auto&&... a) {
      o.decoupled_weight_decay ? at::_fused_adamw_(a...) : at::_fused_adam_(a...);
    };
    apply(op, state.parameters, gradients, state.exp_avgs, state.exp_avg_sqs);
    return next;
  }
  const auto op = [&](auto&&... a) {
    return o.decoupled_weight_decay ? at::_fused_adamw(a...) : at::_fused_adam(a...);
  };
  auto results = apply(op, state.parameters, gradients, state.exp_avgs, state.exp_avg_sqs);
  next.parameters = std::get<0>(results);
  next.exp_avgs = std::get<2>(results);
  next.exp_avg_sqs = std::get<3>(results);
  return next;
}

}  // namespace rondo

#include "trainer/step/functions/optimizer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>

#include <tuple>

namespace rondo {
namespace {

namespace functional = at::functionalization::impl;
using Tensors = std::vector<at::Tensor>;

// Makes a trace read `results` in place of the overwritten tensors from here on.
void replace_by(const Tensors& overwritten, const Tensors& results) {
  for (std::size_t i = 0; i < overwritten.size(); ++i) {
    functional::replace_(overwritten[i], functional::from_functional_tensor(results[i]));
    functional::commit_update(overwritten[i]);
  }
}

Tensors some_of(const Tensors& all, const std::vector<std::size_t>& places) {
  Tensors some;
  for (const std::size_t place : places) some.push_back(all[place]);
  return some;
}

}  // namespace

void optimizer_update(const OptimizerState& state, const Tensors& gradients, const at::Tensor& learning_rate,
                      const at::Tensor& gradient_scale, const at::Tensor& found_inf,
                      const std::vector<UpdateGroup>& groups) {
  state.step.add_(1 - found_inf);  // the op counts the current update from 1
  for (const UpdateGroup& group : groups) {
    const double factor = group.update.lr_factor;
    const at::Tensor rate = factor == 1 ? learning_rate : learning_rate * factor;
    const Tensors old_parameters = some_of(state.parameters, group.parameters),
                  old_exp_avgs = some_of(state.exp_avgs, group.parameters),
                  old_exp_avg_sqs = some_of(state.exp_avg_sqs, group.parameters),
                  group_gradients = some_of(gradients, group.parameters);
    const AdamWOperands operands{old_parameters, old_exp_avgs,   old_exp_avg_sqs, group_gradients, state.step,
                                 rate,           gradient_scale, found_inf,       group.rounding};
    if (!functional::isFunctionalTensor(state.step)) {
      adamw_(operands, group.update.options);
      continue;
    }
    const auto [parameters, exp_avgs, exp_avg_sqs] = adamw(operands, group.update.options);
    replace_by(old_parameters, parameters);
    replace_by(old_exp_avgs, exp_avgs);
    replace_by(old_exp_avg_sqs, exp_avg_sqs);
  }
}

}  // namespace rondo

#include "trainer/step/functions/optimizer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "support/scope.h"
#include "trainer/step/functions/newton_schulz.h"

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

// The operands of the updates of all groups.
struct Numbers {
  const at::Tensor &learning_rate, &gradient_scale, &found_inf;
};

void adamw_update(const OptimizerState& state, const Tensors& gradients, const Numbers& numbers,
                  const UpdateGroup& group) {
  const Tensors old_parameters = some_of(state.parameters, group.parameters),
                old_exp_avgs = some_of(state.exp_avgs, group.parameters),
                old_exp_avg_sqs = some_of(state.exp_avg_sqs, group.parameters);
  const AdamWOperands operands{
      old_parameters,        old_exp_avgs,           old_exp_avg_sqs,   gradients,     state.step,
      numbers.learning_rate, numbers.gradient_scale, numbers.found_inf, group.rounding};
  if (!functional::isFunctionalTensor(state.step)) return adamw_(operands, group.update.options);
  const auto [parameters, exp_avgs, exp_avg_sqs] = adamw(operands, group.update.options);
  replace_by(old_parameters, parameters);
  replace_by(old_exp_avgs, exp_avgs);
  replace_by(old_exp_avg_sqs, exp_avg_sqs);
}

void muon_update(const OptimizerState& state, const Tensors& gradients, const Numbers& numbers,
                 const UpdateGroup& group) {
  const ModuleScope scope("muon");
  const MuonUpdate& muon = *group.update.muon;
  const bool traced = functional::isFunctionalTensor(state.step);
  const Tensors old_parameters = some_of(state.parameters, group.parameters),
                old_momentums = some_of(state.momentums, group.parameters);
  const MuonMomentumOperands of_momentum{old_momentums,     gradients,  numbers.gradient_scale,
                                         numbers.found_inf, state.step, group.rounding};
  Tensors updates;
  if (traced) {
    Tensors momentums;
    std::tie(momentums, updates) = muon_momentum(of_momentum, muon.options, muon.dtype);
    replace_by(old_momentums, momentums);
  } else {
    updates = muon_momentum_(of_momentum, muon.options, muon.dtype);
  }
  const at::Tensor whole = orthogonalized(whole_matrices(updates, group.pieces), muon.ns_steps);
  updates = shards_of_matrices(whole, std::ssize(updates), group.pieces);
  const std::vector<double> scales(group.parameters.size(), group.scale);
  const MuonApplyOperands of_apply{old_parameters,    updates,    numbers.learning_rate,
                                   numbers.found_inf, state.step, group.rounding};
  const double weight_decay = group.update.options.weight_decay;
  if (traced)
    replace_by(old_parameters, muon_apply(of_apply, weight_decay, scales));
  else
    muon_apply_(of_apply, weight_decay, scales);
}

}  // namespace

double scale_of_muon(const MuonUpdate& update, std::int64_t rows, std::int64_t columns) {
  const auto out = static_cast<double>(rows), in = static_cast<double>(columns);
  return update.matches_adamw ? 0.2 * std::sqrt(std::max(out, in)) : std::sqrt(std::max(1.0, out / in));
}

bool UpdateGroup::takes(const UpdateGroup& alone) const {
  if (!(update == alone.update) || bucket != alone.bucket) return false;
  if (!update.muon) return true;
  if (!(pieces == alone.pieces) || scale != alone.scale) return false;
  const std::int64_t bytes =
      pieces.elements() * static_cast<std::int64_t>(c10::elementSize(update.muon->dtype));
  const std::int64_t of_rank = std::max<std::int64_t>(1, kMuonGroupBytes / bytes);
  return std::ssize(parameters) < pieces.holders.ranks * of_rank;
}

void optimizer_update(const OptimizerState& state, const Tensors& gradients, const at::Tensor& learning_rate,
                      const at::Tensor& gradient_scale, const at::Tensor& found_inf,
                      const std::vector<UpdateGroup>& groups) {
  state.step.add_(1 - found_inf);  // the op counts the current update from 1
  for (const UpdateGroup& group : groups) {
    const double factor = group.update.lr_factor;
    const at::Tensor rate = factor == 1 ? learning_rate : learning_rate * factor;
    const auto update = group.update.muon ? muon_update : adamw_update;
    update(state, some_of(gradients, group.parameters), {rate, gradient_scale, found_inf}, group);
  }
}

}  // namespace rondo

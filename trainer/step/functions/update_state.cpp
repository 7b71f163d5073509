// Updates the state in place; in a trace, functionalization turns that into new values. A rank adds
// zeros for the totals that it lacks, since sums over all ranks collect the totals of all stages.
// An early update reads neither the norm nor the finite check of its own step, only that of earlier
// steps.
#include "trainer/step/functions/update_state.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "support/scope.h"
#include "trainer/step/functions/load_balance.h"

namespace rondo {

using at::Tensor;

OptimizerInputs::OptimizerInputs(SignatureBuilder& b, const StepContext& of, Range parameters)
    : parameters(parameters) {
  const ir::DType moments = to_ir(of.options.moment_dtype.value_or(of.options.state_dtype));
  for (const UpdateGroup& group : of.update_groups) {
    std::vector<std::size_t>& own = group.update.muon ? by_muon : by_adamw;
    own.insert(own.end(), group.parameters.begin(), group.parameters.end());
  }
  std::ranges::sort(by_adamw);
  std::ranges::sort(by_muon);
  exp_avgs = b.per_parameter("exp_avg.", ir::InputKind::optimizer, moments, by_adamw);
  exp_avg_sqs = b.per_parameter("exp_avg_sq.", ir::InputKind::optimizer, moments, by_adamw);
  momentums = b.per_parameter("momentum.", ir::InputKind::optimizer, moments, by_muon);
  step = b.scalar("step", ir::InputKind::optimizer);
  halted = b.scalar(kHalted, ir::InputKind::buffer, {}, of.dtype_of_sums());
}

void OptimizerInputs::updates(SignatureBuilder& b) const {
  b.updates(parameters);
  b.updates(exp_avgs);
  b.updates(exp_avg_sqs);
  b.updates(momentums);
  b.update(step);
  b.update(halted);
}

namespace {

// Returns the inputs of a range by parameter; undefined for parameters without one.
Tensors by_parameter(const Range& range, const std::vector<std::size_t>& places, std::size_t parameters,
                     const Tensors& inputs) {
  Tensors all(parameters);
  for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = inputs[range.begin + i];
  return all;
}
// Writes the defined ones of `all` as the updates of a range.
void write_updates(const Range& range, Tensors all, StepOutputs& outputs) {
  std::erase_if(all, [](const Tensor& tensor) { return !tensor.defined(); });
  outputs.update(range, all);
}

// Completes the totals of this rank's stages with zeros on the device of `like`.
StepTotals with_zeros(const StepContext& step, StepTotals totals, const Tensor& like) {
  const at::TensorOptions fp32(at::kFloat);
  if (!totals.loss.defined()) totals.loss = like.new_zeros({});
  if (!step.model_has_routers()) return totals;
  if (!totals.tokens_per_expert_LE.defined())
    totals.tokens_per_expert_LE =
        like.new_zeros({step.router_runs.of(), step.model->routed_tokens()->experts}, fp32);
  else
    totals.tokens_per_expert_LE = step.router_runs.spread(totals.tokens_per_expert_LE);
  if (step.is_bounded() && !totals.dropped_tokens.defined()) totals.dropped_tokens = like.new_zeros({}, fp32);
  return totals;
}

// Returns one list with all gradients or, with an early step, one for each run of parameters of one
// bucket.
std::vector<Tensors> lists_of(const StepContext& step, const Tensors& gradients) {
  if (!step.options.early_step_in_backward) return {gradients};
  std::vector<Tensors> lists;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::vector<StepInput>& parameters = step.inputs.parameters;
    if (i == 0 || parameters[i].bucket != parameters[i - 1].bucket) lists.emplace_back();
    lists.back().push_back(gradients[i]);
  }
  return lists;
}

}  // namespace

void update_state(const StepContext& step, const OptimizerInputs& at_input, const UpdateFrom& from,
                  const Tensors& inputs, StepOutputs& outputs) {
  const PhaseScope update(Phase::update);
  const c10::AutoGradMode no_gradients(false);
  const bool drops = step.options.expert_overflow == ExpertOverflow::drop;
  const Tensor& halted = inputs[at_input.halted];
  const bool early = step.options.early_step_in_backward;
  const Tensor halted_before = early ? at::ne(halted, 0).to(at::kFloat) : Tensor();
  const StepTotals totals = with_zeros(step, from.totals, halted);
  const Reduced r = reduce_and_clip(step.options.mesh, step.options.max_norm, drops, totals,
                                    lists_of(step, from.gradients), step.parameter_runs, halted);
  outputs.result(kLoss, r.loss);
  outputs.result(kGradNorm, r.grad_norm);
  outputs.result(kFoundInf, r.found_inf);
  if (r.dropped_tokens.defined()) outputs.result(kDroppedTokens, r.dropped_tokens);
  outputs.update(at_input.halted, halted);
  if (step.model_has_routers()) {
    ModuleScope scope("load_balance");
    // A copy, since on one rank the result may be the sums of microbatches, which are zeroed later.
    const Tensor tokens_LE = sum_over_ranks(step.options.mesh, kAllAxes, totals.tokens_per_expert_LE)
                                 .to(at::kFloat, false, /*copy=*/true);
    const Balanced balanced = balance_load(from.expert_biases.of(inputs), step.router_runs.places(),
                                           tokens_LE, step.model->load_balance_coeff(), r.found_inf);
    outputs.result(kLoadImbalance, balanced.load_imbalance);
    outputs.result(kTokensPerExpert, tokens_LE);
    outputs.update(from.expert_biases, balanced.expert_biases);
  }
  ModuleScope scope("optimizer");
  const auto of = [&](const Range& range, const std::vector<std::size_t>& places) {
    return by_parameter(range, places, at_input.parameters.count, inputs);
  };
  const OptimizerState state{at_input.parameters.of(inputs), of(at_input.exp_avgs, at_input.by_adamw),
                             of(at_input.exp_avg_sqs, at_input.by_adamw),
                             of(at_input.momentums, at_input.by_muon), inputs[at_input.step]};
  optimizer_update(state, from.gradients, inputs[at_input.learning_rate],
                   early ? at::ones_like(halted_before) : r.gradient_scale,
                   early ? halted_before : r.found_inf, step.update_groups);
  outputs.update(at_input.parameters, state.parameters);
  write_updates(at_input.exp_avgs, state.exp_avgs, outputs);
  write_updates(at_input.exp_avg_sqs, state.exp_avg_sqs, outputs);
  write_updates(at_input.momentums, state.momentums, outputs);
  outputs.update(at_input.step, state.step);
}

void declare_results(SignatureBuilder& b, const StepContext& step) {
  b.result(kLoss);
  b.result(kGradNorm);
  b.result(kFoundInf);
  if (!step.model_has_routers()) return;
  b.result(kLoadImbalance);
  b.result(kTokensPerExpert);
  if (step.is_bounded()) b.result(kDroppedTokens);
}

}  // namespace rondo

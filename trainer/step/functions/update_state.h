// Ends a step: totals and norm over all ranks, clip, load balance, optimizer.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/step/functions/step_parts.h"

namespace rondo {

struct OptimizerInputs {
  Range parameters, exp_avgs, exp_avg_sqs, momentums;
  std::vector<std::size_t> by_adamw, by_muon;  // the parameters of the moments, and of the momentums
  std::size_t step, halted, learning_rate = 0;

  OptimizerInputs(SignatureBuilder& b, const StepContext& of, Range parameters);
  void updates(SignatureBuilder& b) const;
};

// The operands of an update, from one microbatch or from the sums of all microbatches. On a rank
// without the head, or without routers, undefined totals count as zero.
struct UpdateFrom {
  StepTotals totals;
  const Tensors& gradients;
  Range expert_biases;
};

// Declares the plain results: loss, grad_norm, found_inf; with routers load_imbalance and
// tokens_per_expert; with a capacity dropped_tokens.
void declare_results(SignatureBuilder& b, const StepContext& step);
// Writes these results and updates parameters, moments, step, `halted` and the biases of
// the experts.
void update_state(const StepContext& step, const OptimizerInputs& at_input, const UpdateFrom& from,
                  const Tensors& inputs, StepOutputs& outputs);

}  // namespace rondo

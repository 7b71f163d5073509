// The end of a step: totals and norm over all ranks, clip, load balance, optimizer.
#pragma once

#include "trainer/step/functions/step_parts.h"

namespace rondo {

struct OptimizerInputs {
  Range parameters, exp_avgs, exp_avg_sqs;
  std::size_t step, halted, learning_rate = 0;

  OptimizerInputs(SignatureBuilder& b, const StepContext& of, Range parameters);
  void updates(SignatureBuilder& b) const;
};

// What a microbatch, or the sum of them, gives to the update. Of a rank without the head, or without routers,
// what is undefined counts as zero.
struct UpdateFrom {
  StepTotals totals;
  const Tensors& gradients;
  Tensors expert_biases;
};

// loss, grad_norm, found_inf (load_imbalance, tokens_per_expert (dropped_tokens)), then the new parameters,
// exp_avgs, exp_avg_sqs, step, halted and expert biases.
Tensors update_state(const StepContext& step, const OptimizerInputs& at_input, const UpdateFrom& from,
                     const Tensors& inputs);
// The outputs of these names, the first of that.
void plain_results(SignatureBuilder& b, const StepContext& step);

}  // namespace rondo

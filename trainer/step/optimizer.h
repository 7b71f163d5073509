// AdamW and Adam as a part of the step: one fused ATen op over all shards, clip and finite check folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace rondo {

struct OptimizerOptions {
  bool decoupled_weight_decay =
      true;  // AdamW (Loshchilov and Hutter, 2019); false: Adam, decay added to the gradient
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
};

// Overwritten by an update.
struct OptimizerState {
  std::vector<at::Tensor> parameters;   // the shards
  std::vector<at::Tensor> exp_avgs;     // like the shards
  std::vector<at::Tensor> exp_avg_sqs;  // like the shards
  at::Tensor step;                      // fp32 [], updates done so far
};

// One update of the state. `gradients` are like the parameters and are overwritten: divided by
// `gradient_scale` (fp32 []). Where `found_inf` (fp32 []) is 1 the state does not change, not a bit.
// `learning_rate` is fp32 [].
//
// Note [The optimizer in a trace]: LibTorch cannot functionalize the fused in-place ops (no Meta kernel,
// empty lists). So a trace calls the functional form here and lets its results stand for what is overwritten;
// the reinplace pass turns it back. The bits are equal: the functional op is a clone followed by the in-place
// one.
void optimizer_update(const OptimizerState& state, const std::vector<at::Tensor>& gradients,
                      const at::Tensor& learning_rate, const at::Tensor& gradient_scale,
                      const at::Tensor& found_inf, const OptimizerOptions& options);

}  // namespace rondo

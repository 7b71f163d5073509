// AdamW and Adam as a part of the step: one op over the shards of a group (ops/adamw/), clip and finite check
// folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/adamw/adamw.h"

namespace rondo {

// Overwritten by an update.
struct OptimizerState {
  std::vector<at::Tensor> parameters;   // the shards
  std::vector<at::Tensor> exp_avgs;     // like the shards
  std::vector<at::Tensor> exp_avg_sqs;  // like the shards
  at::Tensor step;                      // fp32 [], updates done so far
};

// How the optimizer treats a parameter.
struct ParameterUpdate {
  AdamWOptions options;
  double lr_factor = 1;
  bool operator==(const ParameterUpdate&) const = default;
};
// Those that it treats alike, by their places, ascending.
struct UpdateGroup {
  ParameterUpdate update;
  std::vector<std::size_t> parameters;
};

// One update of the state, in which each parameter belongs to one group. `gradients` are like the parameters,
// and are divided by `gradient_scale` (fp32 []) where they are read. Where `found_inf` (fp32 []) is 1 the
// state does not change, not a bit. `learning_rate` is fp32 [].
//
// Note [The optimizer in a trace]: LibTorch functionalizes no in-place op of ours. So a trace calls the
// functional form here and lets its results stand for what is overwritten; the reinplace pass turns it back.
// The bits are equal: the functional op is a clone followed by the in-place one.
void optimizer_update(const OptimizerState& state, const std::vector<at::Tensor>& gradients,
                      const at::Tensor& learning_rate, const at::Tensor& gradient_scale,
                      const at::Tensor& found_inf, const std::vector<UpdateGroup>& groups);

}  // namespace rondo

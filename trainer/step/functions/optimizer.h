// Applies AdamW or Adam within a step: one op over the shards of a group (ops/adamw/), with clip
// and finite check folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/adamw/adamw.h"

namespace rondo {

// The tensors that an update overwrites.
struct OptimizerState {
  std::vector<at::Tensor> parameters;   // the shards
  std::vector<at::Tensor> exp_avgs;     // like the shards
  std::vector<at::Tensor> exp_avg_sqs;  // like the shards
  at::Tensor step;                      // fp32 [], updates done so far
};

// The optimizer settings of a parameter.
struct ParameterUpdate {
  AdamWOptions options;
  double lr_factor = 1;
  bool operator==(const ParameterUpdate&) const = default;
};
// The parameters with equal settings; with an early step, those of one bucket.
struct UpdateGroup {
  ParameterUpdate update;
  std::vector<std::size_t> parameters;      // indices, ascending
  std::vector<std::int64_t> rounding = {};  // as adamw takes it (ops/adamw/adamw.h)
  std::string bucket = {};                  // empty without an early step
};

// Updates the state once. Each parameter belongs to one group. `gradients` have the shapes of the
// parameters and are divided by `gradient_scale` (fp32 []) when they are read. If `found_inf` (fp32
// []) is 1, no bit of the state changes. `learning_rate` is fp32 [].
//
// Note [The optimizer in a trace]: LibTorch does not functionalize custom in-place ops. So a trace
// calls the functional form here and replaces the overwritten tensors by its results; the reinplace
// pass restores the in-place form. The bits are equal: the functional op is a clone followed by the
// in-place op.
void optimizer_update(const OptimizerState& state, const std::vector<at::Tensor>& gradients,
                      const at::Tensor& learning_rate, const at::Tensor& gradient_scale,
                      const at::Tensor& found_inf, const std::vector<UpdateGroup>& groups);

}  // namespace rondo

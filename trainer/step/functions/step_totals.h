// What ranks and microbatches add up beside gradients, and what the step knows of all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/parts/decoder.h"
#include "parallel/mesh.h"

namespace rondo {

struct StepTotals {
  at::Tensor loss;                  // fp32 or fp64 []
  at::Tensor tokens_per_expert_LE;  // fp32 whole numbers, a row for each router; undefined without routers
  at::Tensor dropped_tokens;        // fp32 [], of all routers; undefined where there is always room

  static StepTotals of(const at::Tensor& loss, const std::vector<RouterLoad>& loads);
  // Those that are defined, in this order; and back.
  std::vector<at::Tensor> list() const;
  static StepTotals from(const std::vector<at::Tensor>& list, bool routers, bool bounded);
};

at::Tensor sum_over_ranks(const Mesh& mesh, Axes axes, const at::Tensor& tensor);

// Of all ranks, the same on each. Loss and norm have the dtype of the totals' loss, the others are fp32.
struct Reduced {
  at::Tensor loss, grad_norm, gradient_scale, found_inf;
  at::Tensor dropped_tokens;  // undefined like that of the totals
};
// Loss, rows without room and the sum of squares of each gradient in one all-reduce; of these sums the global
// gradient norm, exact but for its rounding, and the scale that clips it to `max_norm`; whether
// anything is not finite or, unless such rows are dropped, a row had no room, in this step or in one before:
// then the step must change nothing. `halted` ([], of the loss's dtype) is overwritten by whether it did.
Reduced reduce_and_clip(const Mesh& mesh, double max_norm, bool drops_tokens, const StepTotals& totals,
                        const std::vector<at::Tensor>& gradients, const at::Tensor& halted);

// The loss of a batch over all ranks, given this rank's.
at::Tensor total_loss(const Mesh& mesh, const at::Tensor& loss);

}  // namespace rondo

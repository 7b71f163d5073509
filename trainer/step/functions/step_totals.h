// What ranks and microbatches add up beside gradients, and what the step knows of all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/parts/decoder.h"
#include "parallel/mesh.h"

namespace rondo {

// Which entries of a table some are: runs of neighbours, ascending. A rank that has stages of a pipeline has
// some parameters and routers of the model.
class Runs {
 public:
  explicit Runs(std::int64_t of = 0) : of_(of) {}
  void add(std::int64_t place);            // behind those so far
  std::int64_t of() const { return of_; }  // entries of the table
  const std::vector<std::int64_t>& places() const { return places_; }
  std::int64_t count() const { return std::ssize(places_); }
  // [count, ...] -> [of, ...]: zeros for the others.
  at::Tensor spread(const at::Tensor& some) const;

 private:
  std::int64_t of_;
  std::vector<std::int64_t> places_;
};

struct StepTotals {
  at::Tensor loss;                  // fp32 or fp64 []; undefined where a stage has no head
  at::Tensor tokens_per_expert_LE;  // fp32 whole numbers, a row for each router; undefined without routers
  at::Tensor dropped_tokens;        // fp32 [], of all routers; undefined where there is always room

  static StepTotals of(const at::Tensor& loss, const std::vector<RouterLoad>& loads);
  // Of several stages: tokens row under row, the others added up.
  static StepTotals together(const std::vector<StepTotals>& stages);
  // Those that are defined, in this order.
  std::vector<at::Tensor> list() const;
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
// `parameters`: which of the model's the gradients are of; those of other stages are other ranks'.
Reduced reduce_and_clip(const Mesh& mesh, double max_norm, bool drops_tokens, const StepTotals& totals,
                        const std::vector<at::Tensor>& gradients, const Runs& parameters,
                        const at::Tensor& halted);

// The loss of a batch over all ranks, given this rank's.
at::Tensor total_loss(const Mesh& mesh, const at::Tensor& loss);

}  // namespace rondo

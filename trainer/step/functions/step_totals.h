// Sums over ranks and microbatches other than gradients, and the numbers of a step that follow
// from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/parts/decoder.h"
#include "parallel/mesh.h"

namespace rondo {

// The places of some entries in a table, ascending. A rank with stages of a pipeline has some of
// the parameters and routers of the model.
class Runs {
 public:
  explicit Runs(std::int64_t of = 0) : of_(of) {}
  void add(std::int64_t place);            // REQUIRES: larger than all places so far
  std::int64_t of() const { return of_; }  // entries of the table
  const std::vector<std::int64_t>& places() const { return places_; }
  std::int64_t count() const { return std::ssize(places_); }
  // Maps [count, ...] to [of, ...], with zeros for the other entries.
  at::Tensor spread(const at::Tensor& some) const;

 private:
  std::int64_t of_;
  std::vector<std::int64_t> places_;
};

struct StepTotals {
  at::Tensor loss;                  // fp32 or fp64 []; undefined without a head
  at::Tensor tokens_per_expert_LE;  // fp32 whole numbers, a row for each router; undefined without routers
  at::Tensor dropped_tokens;        // fp32 [], of all routers; undefined without a capacity

  static StepTotals of(const at::Tensor& loss, const std::vector<RouterLoad>& loads);
  // Combines several stages: concatenates the rows of tokens and adds the other totals.
  static StepTotals together(const std::vector<StepTotals>& stages);
  // Returns the defined totals, in this order.
  std::vector<at::Tensor> list() const;
};

at::Tensor sum_over_ranks(const Mesh& mesh, Axes axes, const at::Tensor& tensor);

// The numbers of a step over all ranks, with the same bits on each. Loss and norm have the dtype of
// the totals' loss; the others are fp32.
struct Reduced {
  at::Tensor loss, grad_norm, gradient_scale, found_inf;
  at::Tensor dropped_tokens;  // undefined if undefined in the totals
};
// Reduces loss, rows without room and the sum of squares of each gradient in one all-reduce. One op
// squares each list of `gradients`; together they are the gradients in the order of the parameters.
// Computes the global gradient norm from these sums, exact but for its rounding, and the scale that
// clips it to `max_norm`. found_inf is 1 if a number is not finite or, unless `drops_tokens`, a row
// had no room, in this or an earlier step; then the step must change nothing. Updates `halted` ([],
// in the loss's dtype) accordingly. `parameters`: the places of the gradients among the model's
// parameters; other ranks have the gradients of other stages.
Reduced reduce_and_clip(const Mesh& mesh, double max_norm, bool drops_tokens, const StepTotals& totals,
                        const std::vector<std::vector<at::Tensor>>& gradients, const Runs& parameters,
                        const at::Tensor& halted);

// Returns the loss of a batch over all ranks, f64, from this rank's sum.
at::Tensor total_loss(const Mesh& mesh, const at::Tensor& loss);
// Returns the labels of a batch over all ranks, f64, from this rank's count.
at::Tensor total_labels(const Mesh& mesh, const at::Tensor& valid_tokens);

}  // namespace rondo

// Reduces loss, dropped rows and the sums of squares of all gradients in one all-reduce over all
// ranks, in f64, so every rank gets the same bits. A rank adds zeros for parameters that it does
// not have. Tensor-parallel ranks have the same loss, and replicas the same gradients, so these
// sums are divided by the number of copies. A value is not finite if x - x is not 0, which needs
// no read on the host. `halted` adds such differences and rows without room, which never return it
// to 0. The optimizer divides by the clip factor when it reads the gradients, so there is no
// scaled copy.
#include "trainer/step/functions/step_totals.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>

#include <cmath>

#include "ops/sums_of_squares/sums_of_squares.h"
#include "parallel/collectives.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Returns the sum without duplicates: `copies` ranks added the same value.
Tensor counted_once(const Tensor& sum, std::int64_t copies) { return copies > 1 ? sum / copies : sum; }

// Returns the sum of squares of each gradient.
Tensor squares_of(const std::vector<Tensors>& gradients) {
  Tensors sums;
  for (const Tensors& list : gradients) sums.push_back(sums_of_squares(list));
  return sums.size() == 1 ? sums[0] : at::cat(sums);
}

}  // namespace

void Runs::add(std::int64_t place) {
  RONDO_ASSERT(places_.empty() || places_.back() < place, "places are added in the order of the table");
  places_.push_back(place);
}

Tensor Runs::spread(const Tensor& some) const {
  if (count() == of_) return some;
  Tensors rows;
  std::int64_t next = 0;  // next place in the table
  const auto zeros_up_to = [&](std::int64_t place) {
    std::vector<std::int64_t> sizes = some.sizes().vec();
    sizes[0] = place - next;
    if (place > next) rows.push_back(some.new_zeros(sizes));
  };
  for (std::int64_t i = 0; i < count();) {
    const std::int64_t first = i, place = places_[static_cast<std::size_t>(i)];
    while (i < count() && places_[static_cast<std::size_t>(i)] - place == i - first) ++i;
    zeros_up_to(place);
    rows.push_back(some.slice(0, first, i));
    next = place + i - first;
  }
  zeros_up_to(of_);
  return at::cat(rows);
}

StepTotals StepTotals::of(const Tensor& loss, const std::vector<RouterLoad>& loads) {
  StepTotals totals{loss, {}, {}};
  if (loads.empty()) return totals;
  Tensors tokens, rows;
  for (const RouterLoad& load : loads) {
    tokens.push_back(load.tokens_per_expert_E);
    if (load.dropped_tokens.defined()) rows.push_back(load.dropped_tokens);
  }
  totals.tokens_per_expert_LE = at::stack(tokens);
  if (!rows.empty()) totals.dropped_tokens = at::sum(at::stack(rows));
  return totals;
}

StepTotals StepTotals::together(const std::vector<StepTotals>& stages) {
  if (stages.size() == 1) return stages[0];
  StepTotals totals;
  Tensors tokens;
  const auto add = [](Tensor& to, const Tensor& more) {
    if (more.defined()) to = to.defined() ? to + more : more;
  };
  for (const StepTotals& stage : stages) {
    add(totals.loss, stage.loss);
    add(totals.dropped_tokens, stage.dropped_tokens);
    if (stage.tokens_per_expert_LE.defined()) tokens.push_back(stage.tokens_per_expert_LE);
  }
  if (!tokens.empty()) totals.tokens_per_expert_LE = at::cat(tokens);
  return totals;
}

Tensors StepTotals::list() const {
  Tensors totals;
  for (const Tensor& total : {loss, tokens_per_expert_LE, dropped_tokens})
    if (total.defined()) totals.push_back(total);
  return totals;
}

Tensor sum_over_ranks(const Mesh& mesh, Axes axes, const Tensor& tensor) {
  return all_reduce_sum(tensor, mesh.group(axes));
}

Reduced reduce_and_clip(const Mesh& mesh, double max_norm, bool drops_tokens, const StepTotals& totals,
                        const std::vector<Tensors>& gradients, const Runs& parameters, const Tensor& halted) {
  ModuleScope scope("gradient_norm");
  Tensors parts{totals.loss.to(at::kDouble)};
  if (totals.dropped_tokens.defined()) parts.push_back(totals.dropped_tokens.to(at::kDouble));
  const std::int64_t others = std::ssize(parts);
  const Tensor sums =
      sum_over_ranks(mesh, kAllAxes, at::cat({at::stack(parts), parameters.spread(squares_of(gradients))}));
  const auto once = [&](const Tensor& sum, Axis of_copies) {
    return counted_once(sum, mesh.degree(of_copies));
  };
  Reduced r;
  const at::ScalarType dtype = totals.loss.scalar_type();
  r.loss = once(sums.select(0, 0), Axis::tp).to(dtype);
  r.grad_norm = at::sqrt(once(at::sum(sums.slice(0, others)), Axis::dp_replicate)).to(dtype);
  // x / max(1, norm / max_norm) is x * min(1, max_norm / norm). The optimizer divides when it reads
  // the gradients.
  const Tensor scale = std::isinf(max_norm) ? at::clamp_min(r.grad_norm * 0, 1)
                                            : at::clamp_min((r.grad_norm + 1e-6) / max_norm, 1);
  r.gradient_scale = scale.to(at::kFloat);  // the dtype of the optimizer's kernel
  const Tensor both = r.loss + r.grad_norm;
  halted.add_(both - both);  // inf - inf and nan - nan are nan
  if (totals.dropped_tokens.defined()) {
    r.dropped_tokens = once(sums.select(0, 1), Axis::etp).to(at::kFloat);
    if (!drops_tokens) halted.add_(r.dropped_tokens);
  }
  r.found_inf = at::ne(halted, 0).to(at::kFloat);  // nan != 0 as well
  return r;
}

Tensor total_loss(const Mesh& mesh, const Tensor& loss) {
  return counted_once(sum_over_ranks(mesh, kAllAxes, loss.to(at::kDouble)), mesh.degree(Axis::tp));
}

Tensor total_labels(const Mesh& mesh, const Tensor& valid_tokens) {
  return sum_over_ranks(mesh, kTokenAxes, valid_tokens.to(at::kDouble));
}

}  // namespace rondo

#include "models/parts/sequence_balance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct WithLoss : torch::autograd::Function<WithLoss> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor&, const Tensor& slopes_NE) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({slopes_NE});
    return x.view(x.sizes());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0], context->get_saved_variables()[0], {}};
  }
};

}  // namespace

SequenceLoss sequence_loss(const Tensor& scores_NE, const Tensor& preferred_NK, const RankContext& ranks,
                           const SequenceBalance& balance) {
  const std::int64_t experts = scores_NE.size(1);
  const Tensor own_NE = at::zeros_like(scores_NE).scatter(1, preferred_NK, 1.0);
  const Tensor all_NE = ranks.tensor->all_gather(own_NE);
  const Tensor by_sequence = all_NE.view({balance.sequences, -1, experts});
  const Tensor counts_S1E = at::sum(by_sequence, at::IntArrayRef{1}, /*keepdim=*/true);
  const Tensor counts = ranks.context->all_reduce_sum(counts_S1E).expand(by_sequence.sizes());
  // The counts are whole numbers, and all ranks that share the layer contribute the same ones.
  // Their sum is therefore divided by the number of these ranks.
  Tensor sums_NE = ranks.tensor->reduce_scatter(counts.reshape(all_NE.sizes()));
  const std::int64_t tp_ranks = all_NE.size(0) / own_NE.size(0);
  if (tp_ranks > 1) sums_NE = sums_NE / tp_ranks;
  const auto length = static_cast<double>(by_sequence.size(1) * balance.context),
             top_k = static_cast<double>(preferred_NK.size(1));
  const double of_each = static_cast<double>(experts) / (top_k * length);
  const Tensor affinities_NE = scores_NE / (at::sum(scores_NE, at::IntArrayRef{1}, /*keepdim=*/true) + 1e-20);
  return {affinities_NE, sums_NE * (balance.weight * of_each / length)};
}

Tensor with_loss(const Tensor& x, const SequenceLoss& loss) {
  return WithLoss::apply(x, loss.affinities_NE, loss.slopes_NE);
}

}  // namespace rondo

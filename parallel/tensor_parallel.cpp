// The cross-entropy needs two all-reduces: of the largest logit of each token, then of the sum of
// exponentials together with the label's logit. One rank has the label's logit, and the others add
// zero. Probabilities are saved, so the backward needs no collective. All ranks mask padded columns
// if any rank has some, because their graphs must be equal. In chunks of rows no probabilities are
// saved: the backward computes the logits again.
#include "parallel/tensor_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/with_dtype.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/local_ids/local_ids.h"
#include "parallel/collectives.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The cross-entropy of tokens whose labels' logits ranks share.
struct TokenLosses {
  Tensor sum_T;     // of exp(logit - largest), over all ranks
  Tensor counts_T;  // 1 for tokens with a loss, else 0
  Tensor total;     // []
};
// `own_sum_T` is the part of sum_T from this rank's logits.
TokenLosses token_losses(const Tensor& own_sum_T, const Tensor& of_label_T, const Tensor& largest_T,
                         const LocalIds& label, const Tensor& labels_T, std::int64_t ignored,
                         const AxisGroup& group) {
  const Tensor sums_2T =
      all_reduce_sum(at::stack({own_sum_T, (of_label_T - largest_T).masked_fill(label.elsewhere, 0)}), group);
  const Tensor sum_T = sums_2T.select(0, 0);
  const Tensor counts_T = labels_T.ne(ignored).to(sum_T.scalar_type());
  return {sum_T, counts_T, at::sum((at::log(sum_T) - sums_2T.select(0, 1)) * counts_T)};
}

// Returns 1 for tokens whose label this rank has, else 0.
Tensor own_labels(const LocalIds& label, at::ScalarType dtype) { return 1 - label.elsewhere.to(dtype); }

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& all_logits, const Tensor& labels,
                        std::int64_t vocabulary, std::int64_t ignored, const TensorParallelOptions& tensor) {
    at::AutoDispatchBelowAutograd below_autograd;
    const std::int64_t each = all_logits.size(1), first = tensor.rank * each;
    const std::int64_t real = std::clamp<std::int64_t>(vocabulary - first, 0, each);
    Tensor logits = all_logits;
    const bool padded = each * tensor.group.ranks > vocabulary;  // the same on all ranks
    if (padded) {
      const Tensor columns = at::cumsum(logits.new_ones({each}), 0, at::kInt);  // 1, 2, ...
      const Tensor padding = columns > real;
      logits = logits.masked_fill(padding.unsqueeze(0), -std::numeric_limits<float>::infinity());
    }
    const Tensor largest_T = all_reduce_max(at::amax(logits, {1}), tensor.group);
    const Tensor powers_TV = at::exp(logits - largest_T.unsqueeze(1));
    const LocalIds label = local_ids(labels, first, real, 0, tensor.group.name);
    const Tensor of_label_T = logits.gather(1, label.local.unsqueeze(1)).squeeze(1);
    const Tensor mine_T = own_labels(label, logits.scalar_type());
    const TokenLosses losses = token_losses(at::sum(powers_TV, at::IntArrayRef{1}), of_label_T, largest_T,
                                            label, labels, ignored, tensor.group);
    context->save_for_backward({powers_TV / losses.sum_T.unsqueeze(1), label.local, mine_T, losses.counts_T});
    return losses.total;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &probabilities_TV = saved[0], &place_T = saved[1], &mine_T = saved[2];
    const Tensor each_T1 = (gradients[0] * saved[3]).unsqueeze(1);
    const Tensor of_label_T1 = each_T1 * mine_T.unsqueeze(1);
    return {(probabilities_TV * each_T1).scatter_add(1, place_T.unsqueeze(1), -of_label_T1), {}, {}, {}, {}};
  }
};

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& h_TD, const Tensor& weight_VD,
                        const Tensor& labels, std::int64_t ignored, std::int64_t chunk_rows,
                        const TensorParallelOptions& tensor) {
    static const auto statistics = op_handle<std::tuple<Tensor, Tensor, Tensor, Tensor>(
        const Tensor&, const Tensor&, const Tensor&, std::int64_t)>("rondo::linear_cross_entropy_statistics");
    at::AutoDispatchBelowAutograd below_autograd;
    const std::int64_t each = weight_VD.size(0);
    const LocalIds label = local_ids(labels, tensor.rank * each, each, 0, tensor.group.name);
    const Tensor place_T1 = label.local.unsqueeze(1);
    const auto [own_largest_T, own_sum_T, of_label_T1, workspace] =
        statistics.call(h_TD, weight_VD, place_T1, chunk_rows);
    const Tensor largest_T = all_reduce_max(own_largest_T, tensor.group);
    const Tensor mine_T = own_labels(label, own_sum_T.scalar_type());
    const TokenLosses losses =
        token_losses(own_sum_T * at::exp(own_largest_T - largest_T), of_label_T1.squeeze(1), largest_T, label,
                     labels, ignored, tensor.group);
    context->save_for_backward({h_TD, weight_VD, place_T1, largest_T, losses.sum_T, losses.counts_T, mine_T});
    context->saved_data["chunk_rows"] = chunk_rows;
    return losses.total;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto gradients_of = op_handle<std::tuple<Tensor, Tensor, Tensor>(
        const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
        const Tensor&, std::int64_t)>("rondo::linear_cross_entropy_gradients");
    const variable_list saved = context->get_saved_variables();
    const Tensor each_T1 = (gradients[0] * saved[5]).unsqueeze(1);
    const Tensor of_label_T1 = each_T1 * saved[6].unsqueeze(1);
    const auto [grad_h, grad_weight, workspace] =
        gradients_of.call(saved[0], saved[1], saved[2], saved[3].unsqueeze(1), saved[4].unsqueeze(1), each_T1,
                          of_label_T1, context->saved_data["chunk_rows"].toInt());
    return {grad_h, grad_weight, {}, {}, {}, {}};
  }
};

class ShardedLayers final : public TensorParallel {
 public:
  explicit ShardedLayers(TensorParallelOptions options) : options_(std::move(options)) {}

  Tensor all_gather(const Tensor& x_N) const override { return all_gather_autograd(x_N, options_.group); }
  Tensor reduce_scatter(const Tensor& partial_sums_T) const override {
    return reduce_scatter_autograd(partial_sums_T, options_.group);
  }
  Tensor embedding(const Tensor& weight_VD, const Tensor& ids_BS) const override {
    const std::int64_t each = weight_VD.size(0);
    const LocalIds id = local_ids(ids_BS.reshape({-1}), options_.rank * each, each, 0, options_.group.name);
    const Tensor rows_TD = at::embedding(weight_VD, id.local);
    return reduce_scatter(rows_TD.masked_fill(id.elsewhere.unsqueeze(1), 0));
  }
  Tensor cross_entropy(const Tensor& logits_TV, const Tensor& labels_T, std::int64_t vocabulary,
                       std::int64_t ignored) const override {
    return CrossEntropy::apply(logits_TV.to(sum_dtype(logits_TV)), labels_T, vocabulary, ignored, options_);
  }
  Tensor linear_cross_entropy(const Tensor& h_TD, const Tensor& weight_VD, const Tensor& labels_T,
                              const Tensor&, std::int64_t ignored, std::int64_t chunk_rows,
                              HeadGradients) const override {
    return LinearCrossEntropy::apply(h_TD, weight_VD, labels_T, ignored, chunk_rows, options_);
  }

 private:
  TensorParallelOptions options_;
};

}  // namespace

Tensor TensorParallel::embedding(const Tensor& weight_VD, const Tensor& ids_BS) const {
  return at::embedding(weight_VD, ids_BS.reshape({-1}));
}

Tensor TensorParallel::cross_entropy(const Tensor& logits_TV, const Tensor& labels_T, std::int64_t,
                                     std::int64_t ignored) const {
  return cross_entropy_of(logits_TV, labels_T, ignored);
}

Tensor TensorParallel::linear_cross_entropy(const Tensor& h_TD, const Tensor& weight_VD,
                                            const Tensor& labels_T, const Tensor& gradient,
                                            std::int64_t ignored, std::int64_t chunk_rows,
                                            HeadGradients gradients) const {
  return linear_cross_entropy_of(h_TD, weight_VD, labels_T, gradient, ignored, chunk_rows, gradients);
}

std::shared_ptr<const TensorParallel> tensor_parallel(const TensorParallelOptions& options) {
  if (options.group.ranks == 1) return std::make_shared<TensorParallel>();
  return std::make_shared<ShardedLayers>(options);
}

}  // namespace rondo

// Tensor parallelism with sequence parallelism (Shoeybi et al., "Megatron-LM", 2019; Korthikanti et
// al., "Reducing Activation Recomputation in Large Transformer Models", 2022). Ranks divide each
// layer. Between layers, each rank has some of their tokens. All are autograd functions over
// dispatcher ops, so a trace shows every collective as a node.
//
// Shape suffixes: N tokens of this rank, T tokens of the tensor-parallel group, B rows of the
// batch, S tokens of a row, D model dim, V vocabulary ids of this rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "parallel/mesh.h"

namespace rondo {

struct TensorParallelOptions {
  AxisGroup group{};
  std::int64_t rank = 0;  // rank in the group
};

// The collectives of a layer that ranks share. With one rank: the identity, and the ops of a
// whole vocabulary.
class TensorParallel {
 public:
  virtual ~TensorParallel() = default;
  // Gathers [N, ...] into [T, ...], in rank order. Backward: reduce-scatter.
  virtual at::Tensor all_gather(const at::Tensor& x_N) const { return x_N; }
  // Reduce-scatters [T, ...] to [N, ...]: the sum over the ranks, at this rank's tokens.
  // Backward: all-gather.
  virtual at::Tensor reduce_scatter(const at::Tensor& partial_sums_T) const { return partial_sums_T; }
  // Looks up the ids [B, S] of all T tokens. Returns the rows [N, D] of this rank's tokens. Rank r
  // has the rows of ids [r * V, (r + 1) * V).
  virtual at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& ids_BS) const;
  // Returns the sum over the T tokens of their cross-entropy: [], the same on every rank. Rank r
  // has the logits of ids [r * V, (r + 1) * V); ids from `vocabulary` on are padding. A token with
  // the label `ignored` has no loss. With several ranks, the loss has the dtype sum_dtype(logits).
  // Logits are not gathered, and the backward has no collective.
  virtual at::Tensor cross_entropy(const at::Tensor& logits_TV, const at::Tensor& labels_T,
                                   std::int64_t vocabulary, std::int64_t ignored) const;
  // Returns the same sum for the logits h weight^T, of which only `chunk_rows` rows are in memory
  // at a time (ops/linear_cross_entropy/). REQUIRES: no shard of the vocabulary is padded;
  // `gradient`, [] in the dtype of the loss, is the gradient of the sum. With several ranks the
  // backward computes the gradients of the head, whatever `gradients` says.
  virtual at::Tensor linear_cross_entropy(const at::Tensor& h_TD, const at::Tensor& weight_VD,
                                          const at::Tensor& labels_T, const at::Tensor& gradient,
                                          std::int64_t ignored, std::int64_t chunk_rows,
                                          HeadGradients gradients) const;
};

std::shared_ptr<const TensorParallel> tensor_parallel(const TensorParallelOptions& options);

}  // namespace rondo

// Tensor parallelism with sequence parallelism (Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al.,
// "Reducing Activation Recomputation in Large Transformer Models", 2022): ranks share each layer, and between
// layers each has some of their tokens. Autograd functions over dispatcher ops, so that a trace shows every
// collective as a node.
//
// Shape suffixes: N tokens of one rank, T tokens of all ranks that share the layers, D model dim, V ids of
// one rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "parallel/mesh.h"

namespace rondo {

struct TensorParallel {
  AxisGroup group{};       // with one rank all of this is plain
  std::int64_t place = 0;  // this rank's in it
};

// [N, ...] -> [T, ...], by rank. Backward: the sum over the ranks of what is this rank's.
at::Tensor gather_tokens(const at::Tensor& own, const AxisGroup& group);
// [T, ...] -> [N, ...]: the sum over the ranks of what is this rank's. Backward: gathered again.
at::Tensor scatter_token_sums(const at::Tensor& all, const AxisGroup& group);

// Rows of an embedding of which rank r has ids [r * V, (r + 1) * V), for the ids [T] of all; this rank's
// tokens [N, D].
at::Tensor vocabulary_parallel_lookup(const at::Tensor& embedding_VD, const at::Tensor& ids_T,
                                      const TensorParallel& tensor);

// The sum over all tokens of their cross-entropy, the same on every rank: [] of the logits' dtype. `logits`,
// fp32 or fp64, are of ids [r * V, (r + 1) * V); those from `vocabulary` on are padding. Tokens with the
// label `ignored` count nothing. No rank ever has the logits of another. Backward: no collective.
at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& logits_TV, const at::Tensor& labels_T,
                                             std::int64_t vocabulary, std::int64_t ignored,
                                             const TensorParallel& tensor);

}  // namespace rondo

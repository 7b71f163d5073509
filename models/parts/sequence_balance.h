// The complementary sequence-wise auxiliary loss (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section
// 2.1.2): of a sequence of T tokens, each of which takes K of E experts,
//
//   sum over the experts i of f_i P_i,   P_i = mean over the tokens of s'_i,
//   f_i = E / (K T) * tokens of which i is among the K largest scores
//
// where s' are a token's scores over their sum; f has no gradient. Neither the bias of the choice nor groups
// of experts have a part in it: what a token would take, not what it takes. It is 1 where that is even, and
// E / K at most.
//
// Shape suffixes: N tokens of this rank, K experts a token, E experts.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/rank_context.h"

namespace rondo {

struct SequenceBalance {
  std::int64_t sequences = 1;  // of all ranks that share the layer
  double weight = 0;           // factor on the loss of each; 0: there is none
  std::int64_t context = 1;    // ranks that share each sequence's tokens
};

// What own tokens add to the weighted sum of the sequences' losses is sum(affinities * slopes). fp32 [N, E]
// both; the latter have no gradient.
struct SequenceLoss {
  at::Tensor affinities_NE, slopes_NE;
};
SequenceLoss sequence_loss(const at::Tensor& scores_NE, const at::Tensor& preferred_NK,
                           const RankContext& ranks, const SequenceBalance& balance);

// x, contiguous and of any shape. Backward: as if the loss were added to what is differentiated. So a loss
// inside a block needs no way out of it, and is there where the block is computed again.
at::Tensor with_loss(const at::Tensor& x, const SequenceLoss& loss);

}  // namespace rondo

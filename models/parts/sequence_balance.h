// The complementary sequence-wise auxiliary loss (DeepSeek-AI, "DeepSeek-V3 Technical Report",
// 2024, section 2.1.2). For a sequence of T tokens, each routed to K of E experts, it is
//
//   sum over the experts i of f_i P_i,   P_i = mean over the tokens of s'_i,
//   f_i = E / (K T) * number of tokens with i among their K largest scores
//
// where s' are a token's scores divided by their sum; f has no gradient. The selection bias and
// groups of experts do not enter: the loss counts preferred experts, not selected ones. A balanced
// sequence has loss 1; the maximum is E / K.
//
// Shape suffixes: N tokens of this rank, K experts per token, E experts.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/rank_context.h"

namespace rondo {

struct SequenceBalance {
  std::int64_t sequences = 1;  // sequences of all ranks that share the layer
  double weight = 0;           // factor on the loss of each sequence; 0: no loss
  std::int64_t context = 1;    // ranks that share each sequence's tokens
};

// This rank's contribution to the weighted sum of the sequences' losses: sum(affinities * slopes).
// Both are fp32 [N, E]. The slopes have no gradient.
struct SequenceLoss {
  at::Tensor affinities_NE, slopes_NE;
};
SequenceLoss sequence_loss(const at::Tensor& scores_NE, const at::Tensor& preferred_NK,
                           const RankContext& ranks, const SequenceBalance& balance);

// Returns x, which is contiguous and of any shape. The backward acts as if the loss were added to
// the differentiated value. A loss inside a block thus needs no output, and recomputation of the
// block includes it.
at::Tensor with_loss(const at::Tensor& x, const SequenceLoss& loss);

}  // namespace rondo

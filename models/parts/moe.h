// Mixture of experts (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.1.2). A router
// scores the experts for each token. The best K experts process the token, and their results are
// summed, weighted by score.
//
// Shapes are static: each of T tokens has K slots, and the tokens per expert stay on the device.
// ExpertParallel (parallel/expert_parallel.h) sends rows to the ranks of their experts.
//
// Shape suffixes: T tokens of this rank, D model dim, E experts, K experts per token.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/parts/decoder.h"
#include "models/parts/sequence_balance.h"
#include "parallel/rank_context.h"

namespace rondo {

struct Routing {
  at::Tensor all_scores_TE;        // fp32, with gradient
  at::Tensor experts_TK;           // int64
  at::Tensor scores_TK;            // fp32, with gradient
  at::Tensor tokens_per_expert_E;  // fp32 whole numbers
};

// Routes tokens by their logits, fp32 or fp64; scores then have the same dtype. The bias, fp32 or
// undefined, affects only the selection.
Routing route(const at::Tensor& logits_TE, const at::Tensor& bias_E, const RouterOptions& options);

struct MoeOutput {
  at::Tensor y_TD;
  RouterLoad load;
};

// Reads in the open scope "router.gate" [E, D]; "experts.w1" and "experts.w3" [E, F, D] and
// "experts.w2" [E, D, F], or "experts.gate_up" [E, D, 2 F] and "experts.down" [E, F, D]; and the
// feed-forward "shared_experts" if there are shared experts. `balance`: the auxiliary loss of each
// sequence's load.
MoeOutput mixture_of_experts(const MixtureOfExperts& m, const at::Tensor& x_TD, const RankContext& ranks,
                             const at::Tensor& bias_E, const SequenceBalance& balance);

}  // namespace rondo

// A mixture of experts (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.1.2): a router scores
// the experts for each token, the token goes to the best of them, and their results are added up by score.
//
// Shapes are static: each of T tokens has K slots, and how many an expert gets stays on the device. Rows
// reach the ranks of their experts through ExpertParallel (parallel/expert_parallel.h).
//
// Shape suffixes: T tokens of this rank, D model dim, E experts, K experts a token.
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

// logits fp32, or fp64 and then scores too. The bias, fp32 or undefined, counts for the choice alone.
Routing route(const at::Tensor& logits_TE, const at::Tensor& bias_E, const RouterOptions& options);

struct MoeOutput {
  at::Tensor y_TD;
  RouterLoad load;
};

// In the open scope: "router.gate" [E, D]; "experts.w1" and "experts.w3" [E, F, D], "experts.w2" [E, D, F],
// or "experts.gate_up" [E, D, 2 F] and "experts.down" [E, F, D]; and, where there are shared experts, the
// feed-forward "shared_experts". `balance`: what the load of each sequence adds to the loss.
MoeOutput mixture_of_experts(const MixtureOfExperts& m, const at::Tensor& x_TD, const RankContext& ranks,
                             const at::Tensor& bias_E, const SequenceBalance& balance);

}  // namespace rondo

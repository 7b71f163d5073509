// The router and its experts on one rank. Scores are fp32 for every dtype of the weights except
// fp64, where they are fp64.
#include "models/parts/moe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "models/parts/layers.h"
#include "ops/grouped_sum/grouped_sum.h"
#include "ops/kernel/with_dtype.h"
#include "ops/sort_slots/sort_slots.h"
#include "ops/swiglu/clamped_swiglu.h"
#include "ops/swiglu/swiglu.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor best(const Tensor& scores, std::int64_t count) {
  return std::get<1>(at::topk(scores, count, -1, /*largest=*/true, /*sorted=*/false));
}

// Sets the scores of all but the best groups to minus infinity.
Tensor limit_groups(const Tensor& scores_TE, const RouterOptions& o) {
  const std::int64_t tokens = scores_TE.size(0), experts = scores_TE.size(1);
  const std::int64_t group = experts / o.n_groups;
  const Tensor by_group = scores_TE.view({tokens, o.n_groups, group});
  const Tensor group_scores = at::sum(std::get<0>(at::topk(by_group, 2, -1)), at::IntArrayRef{-1});
  const Tensor allowed = at::zeros_like(group_scores).scatter(1, best(group_scores, o.n_limited_groups), 1.0);
  const Tensor out = (allowed == 0).unsqueeze(-1).expand({tokens, o.n_groups, group});
  return by_group.masked_fill(out, -std::numeric_limits<double>::infinity()).view({tokens, experts});
}

Tensor grouped(const char* name, const Tensor& x_RD, const RankContext& ranks, const Tensor& ends_E) {
  ModuleScope scope(name);
  return ranks.weights->grouped_linear(x_RD, ends_E);
}

Tensor run_experts(const Tensor& rows_RD, const RankContext& ranks, const Tensor& ends_E) {
  ModuleScope scope("experts");
  const Tensor gate_RF = grouped("w1", rows_RD, ranks, ends_E);
  const Tensor up_RF = grouped("w3", rows_RD, ranks, ends_E);
  return grouped("w2", swiglu_of(gate_RF, up_RF, count_of(ends_E)), ranks, ends_E);
}

Tensor grouped_product(const char* name, const Tensor& x_RD, const RankContext& ranks, const Tensor& ends_E) {
  ModuleScope scope(name);
  return ranks.weights->grouped_mm(x_RD, ends_E);
}

Tensor run_fused_experts(const Tensor& rows_RD, const RankContext& ranks, const Tensor& ends_E) {
  ModuleScope scope("experts");
  const Tensor both = grouped_product("gate_up", rows_RD, ranks, ends_E);
  const std::int64_t width = both.size(-1) / 2;  // of this rank
  const std::vector<Tensor> gate_and_up = both.split_with_sizes({width, width}, -1);
  const Tensor hidden = swiglu_of(gate_and_up[0], gate_and_up[1], count_of(ends_E));
  return grouped_product("down", hidden, ranks, ends_E);
}

// Multiplies each row by its expert's matrix and adds the expert's bias. With `is_partial`, the
// results are terms of a sum over expert_tp, and one of them contains the bias.
Tensor biased_product(const char* name, const Tensor& x_RD, bool is_partial, const RankContext& ranks,
                      const Tensor& ends_E) {
  ModuleScope scope(name);
  const Tensor product = ranks.weights->grouped_mm(x_RD, ends_E), bias_ED = ranks.weights->get("bias");
  return grouped_add(product, is_partial ? ranks.experts->once_per_expert_tp_group(bias_ED) : bias_ED,
                     ends_E);
}

Tensor run_clamped_experts(const Tensor& rows_RD, const RankContext& ranks, const Tensor& ends_E) {
  constexpr double kLimit = 7.0, kSlope = 1.702;
  ModuleScope scope("experts");
  const Tensor both = biased_product("gate_up", rows_RD, /*is_partial=*/false, ranks, ends_E);
  const Tensor hidden = clamped_swiglu(both, count_of(ends_E), kLimit, kSlope);
  return biased_product("down", hidden, /*is_partial=*/true, ranks, ends_E);
}

Routing run_router(const MixtureOfExperts& m, const Tensor& x_TD, const RankContext& ranks,
                   const Tensor& load_bias_E, const SequenceBalance& balance) {
  ModuleScope router("router");
  const at::ScalarType wide = sum_dtype(x_TD);
  Tensor gate_ED, bias_E;
  {
    ModuleScope gate("gate");
    gate_ED = ranks.weights->get("weight").to(wide);
    if (m.router_has_bias) bias_E = ranks.weights->get("bias").to(wide);
  }
  const Tensor plain_TE = at::linear(x_TD.to(wide), gate_ED);
  Routing routing = route(m.router_has_bias ? plain_TE + bias_E : plain_TE, load_bias_E, m.router);
  if (balance.weight > 0) {
    // Counts by affinity only. Under a bias or limited groups, the selection can be even when
    // affinities are not.
    const bool is_steered = load_bias_E.defined() || m.router.n_groups > 1;
    const Tensor preferred_TK =
        is_steered ? best(routing.all_scores_TE.detach(), m.router.top_k) : routing.experts_TK;
    routing.scores_TK =
        with_loss(routing.scores_TK, sequence_loss(routing.all_scores_TE, preferred_TK, ranks, balance));
  }
  return routing;
}

using RunExperts = Tensor (*)(const Tensor& rows_RD, const RankContext& ranks, const Tensor& ends_E);

RunExperts kind_of(ExpertKind kind) {
  switch (kind) {
    case ExpertKind::fused_swiglu:
      return run_fused_experts;
    case ExpertKind::clamped_swiglu:
      return run_clamped_experts;
    case ExpertKind::swiglu:
      break;
  }
  return run_experts;
}

// Dispatches tokens to their experts, runs these, and combines the results by score.
Tensor through_experts(const MixtureOfExperts& m, const Tensor& x_TD, const Routing& routing,
                       const RankContext& ranks, RouterLoad& load) {
  Dispatched dispatched;
  {
    ModuleScope scope("dispatch");
    dispatched = ranks.experts->dispatch(x_TD, routing.experts_TK, routing.tokens_per_expert_E.size(0));
  }
  load = {routing.tokens_per_expert_E, dispatched.dropped_tokens};
  const Tensor results_RD = kind_of(m.kind)(dispatched.rows_RD, ranks, dispatched.ends_E);
  ModuleScope scope("combine");
  return ranks.experts->combine(results_RD, dispatched, routing.scores_TK);
}

// Treats each slot of a token as a separate token, scaled by its score, with one expert of
// weight 1.
Tensor through_scaled(const MixtureOfExperts& m, const Tensor& x_TD, const Routing& routing,
                      const RankContext& ranks, RouterLoad& load) {
  const Tensor scaled_TKD = (x_TD.unsqueeze(1) * routing.scores_TK.unsqueeze(-1)).to(x_TD.scalar_type());
  Routing slots = routing;
  slots.experts_TK = routing.experts_TK.view({-1, 1});
  slots.scores_TK = at::ones_like(routing.scores_TK).view({-1, 1});
  const Tensor y_SD = through_experts(m, scaled_TKD.flatten(0, 1), slots, ranks, load);
  return m.router.top_k == 1 ? y_SD : at::sum(y_SD.view(scaled_TKD.sizes()), at::IntArrayRef{1});
}

}  // namespace

Routing route(const Tensor& logits_TE, const Tensor& bias_E, const RouterOptions& o) {
  const Tensor scores_TE = o.sigmoid ? at::sigmoid(logits_TE) : at::softmax(logits_TE, -1);
  const bool biased = bias_E.defined();
  const Tensor for_choice = biased ? scores_TE.detach() + bias_E : scores_TE.detach();
  Routing routing;
  routing.all_scores_TE = scores_TE;
  routing.experts_TK = best(o.n_groups > 1 ? limit_groups(for_choice, o) : for_choice, o.top_k);
  Tensor chosen_TK = scores_TE.gather(1, routing.experts_TK);
  if (o.norm) chosen_TK = chosen_TK / (at::sum(chosen_TK, at::IntArrayRef{-1}, /*keepdim=*/true) + 1e-20);
  routing.scores_TK = o.scale == 1.0 ? chosen_TK : chosen_TK * o.scale;
  // The sort of the dispatch, whose order is not used here: a compiled step sorts once.
  const SortedSlots sorted = sort_slots(routing.experts_TK.view({-1}), scores_TE.size(1));
  routing.tokens_per_expert_E = sorted.counts.to(at::kFloat);
  return routing;
}

MoeOutput mixture_of_experts(const MixtureOfExperts& m, const Tensor& x_TD, const RankContext& ranks,
                             const Tensor& bias_E, const SequenceBalance& balance) {
  const Routing routing = run_router(m, x_TD, ranks, bias_E, balance);
  MoeOutput output;
  const auto through = m.scores_scale_inputs ? through_scaled : through_experts;
  output.y_TD = through(m, x_TD, routing, ranks, output.load);
  if (m.shared_width > 0) output.y_TD = output.y_TD + feed_forward("shared_experts", x_TD, ranks);
  return output;
}

}  // namespace rondo

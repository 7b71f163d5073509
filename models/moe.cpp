#include "models/moe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "models/layers.h"
#include "models/ops/permute_rows.h"
#include "parallel/scope.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor best(const Tensor& scores, std::int64_t count) {
  return std::get<1>(at::topk(scores, count, -1, /*largest=*/true, /*sorted=*/false));
}

// Scores with those of all but the best groups at minus infinity.
Tensor limit_groups(const Tensor& scores_TE, const RouterOptions& o) {
  const std::int64_t tokens = scores_TE.size(0), experts = scores_TE.size(1);
  const std::int64_t group = experts / o.n_groups;
  const Tensor by_group = scores_TE.view({tokens, o.n_groups, group});
  const Tensor group_scores = at::sum(std::get<0>(at::topk(by_group, 2, -1)), at::IntArrayRef{-1});
  const Tensor allowed = at::zeros_like(group_scores).scatter(1, best(group_scores, o.n_limited_groups), 1.0);
  const Tensor out = (allowed == 0).unsqueeze(-1).expand({tokens, o.n_groups, group});
  return by_group.masked_fill(out, -std::numeric_limits<double>::infinity()).view({tokens, experts});
}

// Which slot stands where once slots are sorted by expert, and the other way round.
struct Order {
  Tensor order_N, place_N;
  Tensor ends_E;  // int32: one past the last place of each expert
};
Order by_expert(const Routing& routing) {
  const Tensor slots_N = routing.experts_TK.view({-1});
  Order result;
  result.order_N = std::get<1>(at::sort(slots_N, /*stable=*/true, 0, /*descending=*/false));
  result.place_N = at::argsort(result.order_N, /*stable=*/true, 0);
  result.ends_E = at::cumsum(routing.tokens_per_expert_E, 0, at::kInt);
  return result;
}

Tensor grouped(const char* name, const Tensor& x_ND, const Weights& weights, const Tensor& ends_E) {
  ModuleScope scope(name);
  return weights.grouped_linear(x_ND, ends_E);
}

Tensor run_experts(const Tensor& rows_ND, const Weights& weights, const Tensor& ends_E) {
  ModuleScope scope("experts");
  const Tensor gate_NF = grouped("w1", rows_ND, weights, ends_E);
  const Tensor up_NF = grouped("w3", rows_ND, weights, ends_E);
  return grouped("w2", at::silu(gate_NF) * up_NF, weights, ends_E);
}

// The products with the scores in fp32.
Tensor combine(const Tensor& rows_ND, const Order& order, const Tensor& scores_TK) {
  ModuleScope scope("combine");
  const Tensor slots_ND = permute_rows(rows_ND, 1, order.place_N, order.order_N);
  const Tensor slots_TKD =
      slots_ND.view({scores_TK.size(0), scores_TK.size(1), rows_ND.size(1)}).to(at::kFloat);
  return at::sum(slots_TKD * scores_TK.unsqueeze(-1), at::IntArrayRef{1}).to(rows_ND.scalar_type());
}

Routing run_router(const Tensor& x_TD, const Weights& weights, const Tensor& bias_E, const RouterOptions& o) {
  ModuleScope router("router");
  Tensor gate_ED;
  {
    ModuleScope gate("gate");
    gate_ED = weights.get("weight").to(at::kFloat);
  }
  return route(at::linear(x_TD.to(at::kFloat), gate_ED), bias_E, o);
}

}  // namespace

Routing route(const Tensor& logits_TE, const Tensor& bias_E, const RouterOptions& o) {
  const Tensor scores_TE = o.sigmoid ? at::sigmoid(logits_TE) : at::softmax(logits_TE, -1);
  const Tensor for_choice = scores_TE.detach() + bias_E;
  Routing routing;
  routing.experts_TK = best(o.n_groups > 1 ? limit_groups(for_choice, o) : for_choice, o.top_k);
  Tensor chosen_TK = scores_TE.gather(1, routing.experts_TK);
  if (o.norm) chosen_TK = chosen_TK / (at::sum(chosen_TK, at::IntArrayRef{-1}, /*keepdim=*/true) + 1e-20);
  routing.scores_TK = o.scale == 1.0 ? chosen_TK : chosen_TK * o.scale;
  const Tensor slots_N = routing.experts_TK.view({-1});
  routing.tokens_per_expert_E =
      at::zeros_like(bias_E).scatter_add(0, slots_N, at::ones_like(slots_N, bias_E.scalar_type()));
  return routing;
}

MoeOutput mixture_of_experts(const Tensor& x_BSD, const Weights& weights, const Tensor& bias_E,
                             const RouterOptions& o, bool shared_experts) {
  const Tensor x_TD = x_BSD.reshape({-1, x_BSD.size(-1)});
  const Routing routing = run_router(x_TD, weights, bias_E, o);
  Tensor rows_ND;
  Order order;
  {
    ModuleScope scope("dispatch");
    order = by_expert(routing);
    rows_ND = permute_rows(x_TD, o.top_k, order.order_N, order.place_N);
  }
  const Tensor results_ND = run_experts(rows_ND, weights, order.ends_E);
  Tensor y_TD = combine(results_ND, order, routing.scores_TK);
  if (shared_experts) y_TD = y_TD + feed_forward("shared_experts", x_TD, weights);
  return {y_TD.view(x_BSD.sizes()), routing.tokens_per_expert_E};
}

}  // namespace rondo

// Ranks that share the heads or the rows exchange the latents, which are narrower than the model
// and than keys and values. Ranks that share the rows compute keys and values of all these rows.
//
// Shape suffixes: B batch, T tokens of a row on this rank, S tokens of a row that its queries
// attend to, N tokens of this rank, D model dim, H heads, R rotated width, V value head width,
// L latent.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/attention/attention_kinds.h"
#include "models/parts/layers.h"
#include "ops/attention/attention.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor queries(const LatentAttention& a, const Tensor& x_ND, const RankContext& ranks) {
  if (a.q_rank == 0) return linear("wq", ranks.sequence->all_gather(x_ND), ranks);
  const Tensor latent_NL = linear("wq_a", x_ND, ranks);
  const Tensor normed_NL = rms_norm("q_norm", latent_NL, ranks, a.norm_eps);
  return linear("wq_b", ranks.sequence->all_gather(normed_NL), ranks);
}

// Broadcasts [B, S, 1, R] over the heads: [B, S, H, R]. The backward sums over this rank's heads,
// even for one head. Autograd would omit that sum, and with it the mark that ranks hold partial
// sums of the gradient of all heads.
struct OverHeads : torch::autograd::Function<OverHeads> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x_BS1R, std::int64_t heads) {
    at::AutoDispatchBelowAutograd below_autograd;
    return x_BS1R.expand({-1, -1, heads, -1});
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {at::sum(gradients[0], at::IntArrayRef{2}, /*keepdim=*/true), {}};
  }
};

}  // namespace

Tensor attention(const LatentAttention& a, const Tensor& x_ND, const RankContext& ranks,
                 const RotaryTables& rope, const ForwardInputs& inputs) {
  ModuleScope scope("attention");
  const std::int64_t batch = inputs.rows, time = inputs.length;
  const auto heads = [&](const Tensor& x, std::int64_t width) {
    return x.view({batch, -1, x.size(-1) / width, width});
  };
  const Tensor q_BTH = heads(queries(a, x_ND, ranks), a.plain_width + a.rotated_width);
  const auto q_parts = q_BTH.split_with_sizes({a.plain_width, a.rotated_width}, -1);
  const Tensor q = at::cat({q_parts[0], rotate(q_parts[1], rope, RotatedPairs::neighbours)}, -1);

  const Tensor compressed = ranks.sequence->all_gather(linear("wkv_a", x_ND, ranks));
  const auto kv_parts = compressed.split_with_sizes({a.kv_rank, a.rotated_width}, -1);
  const Tensor latent_NL = rms_norm("kv_norm", kv_parts[0], ranks, a.norm_eps);
  const Tensor latent_BSL = ranks.context->all_gather(latent_NL.view({batch, time, a.kv_rank}));
  const Tensor kv_BSH =
      heads(linear("wkv_b", latent_BSL.view({-1, a.kv_rank}), ranks), a.plain_width + a.value_width);
  const auto k_and_v = kv_BSH.split_with_sizes({a.plain_width, a.value_width}, -1);
  const Tensor k_rope_BS1R =
      ranks.context->all_gather(rotate(heads(kv_parts[1], a.rotated_width), rope, RotatedPairs::neighbours));
  const Tensor k = at::cat({k_and_v[0], OverHeads::apply(k_rope_BS1R, kv_BSH.size(2))}, -1);

  const Tensor out_BHTV = ranks.context->attention({.q = q.transpose(1, 2),
                                                    .k = k.transpose(1, 2),
                                                    .v = k_and_v[1].transpose(1, 2),
                                                    .document_borders = inputs.document_borders_N,
                                                    .scale = a.scale,
                                                    .query_positions = inputs.query_positions_BT,
                                                    .key_positions = inputs.key_positions_BS});
  return ranks.sequence->reduce_scatter(
      linear("wo", out_BHTV.transpose(1, 2).reshape({batch * time, -1}), ranks));
}

}  // namespace rondo

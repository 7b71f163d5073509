// Ranks that share the heads or the rows exchange the latents, which are narrower than the model
// and than keys and values. Ranks that share the rows compute keys and values of all these rows.
// If wkv_b is quantized, they exchange keys and values instead. A rank has only a partial sum of
// the gradient of other ranks' keys and values, and quantizing needs the whole sum.
//
// Shape suffixes: B batch, T tokens of a row on this rank, S tokens of a row that its queries
// attend to, N tokens of this rank, D model dim, H heads, R rotated width, V value head width,
// L latent.
#include <ATen/TensorOperators.h>

#include "models/attention/attention_kinds.h"
#include "models/parts/layers.h"
#include "ops/attention/attention.h"
#include "ops/latent_keys/latent_keys.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor queries(const LatentAttention& a, const Tensor& x_ND, const RankContext& ranks) {
  if (a.q_rank == 0) return linear("wq", ranks.tensor->all_gather(x_ND), ranks);
  const Tensor latent_NL = linear("wq_a", x_ND, ranks);
  const Tensor normed_NL = rms_norm("q_norm", latent_NL, ranks, a.norm_eps);
  return linear("wq_b", ranks.tensor->all_gather(normed_NL), ranks);
}

// Returns keys before their rotated part, and values, of whole rows [B, S, H * (plain + value)].
Tensor keys_and_values(const Tensor& latent_NL, const RankContext& ranks, const ForwardInputs& inputs) {
  const auto whole_rows = [&](const Tensor& x) {
    return ranks.context->all_gather(x.view({inputs.rows, inputs.length, -1}));
  };
  if (quantizes("wkv_b", ranks)) return whole_rows(linear("wkv_b", latent_NL, ranks));
  const Tensor latent_BSL = whole_rows(latent_NL);
  return linear("wkv_b", latent_BSL.view({-1, latent_BSL.size(-1)}), ranks);
}

}  // namespace

Tensor attention(const LatentAttention& a, const Tensor& x_ND, const RankContext& ranks,
                 const RotaryTables& rope, const ForwardInputs& inputs) {
  ModuleScope scope("attention");
  const std::int64_t batch = inputs.rows, time = inputs.length;
  const auto heads = [&](const Tensor& x, std::int64_t width) {
    return x.view({batch, -1, x.size(-1) / width, width});
  };
  // Rotates the last elements of each head.
  const Tensor q =
      rotate(heads(queries(a, x_ND, ranks), a.plain_width + a.rotated_width), rope, RotatedPairs::neighbours);

  const Tensor compressed = ranks.tensor->all_gather(linear("wkv_a", x_ND, ranks));
  const auto kv_parts = compressed.split_with_sizes({a.kv_rank, a.rotated_width}, -1);
  const Tensor latent_NL = rms_norm("kv_norm", kv_parts[0], ranks, a.norm_eps);
  const Tensor kv_BSH = heads(keys_and_values(latent_NL, ranks, inputs), a.plain_width + a.value_width);
  const Tensor k_rope_BS1R =
      ranks.context->all_gather(rotate(heads(kv_parts[1], a.rotated_width), rope, RotatedPairs::neighbours));
  const auto [k, v] = latent_keys_of(kv_BSH, k_rope_BS1R, a.plain_width);

  const Tensor out_BHTV = ranks.context->attention({.q = q.transpose(1, 2),
                                                    .k = k.transpose(1, 2),
                                                    .v = v.transpose(1, 2),
                                                    .document_borders = inputs.document_borders_N,
                                                    .scale = a.scale,
                                                    .query_positions = inputs.query_positions_BT,
                                                    .key_positions = inputs.key_positions_BS});
  return ranks.tensor->reduce_scatter(
      linear("wo", out_BHTV.transpose(1, 2).reshape({batch * time, -1}), ranks));
}

}  // namespace rondo

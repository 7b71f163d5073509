// Grouped-query attention: projections, norms of queries and keys, rotation, attention and the
// output projection, for this rank's heads.
//
// Shape suffixes: B batch, T tokens of a row on this rank, S tokens of a row that its queries
// attend to, N tokens of this rank, D model dim, H query heads, G key/value heads, K head dim.
#include <ATen/TensorOperators.h>

#include <cmath>

#include "models/attention/attention_kinds.h"
#include "models/parts/layers.h"
#include "ops/attention/attention.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

// Returns the projection to this rank's outputs.
Tensor projected(const GroupedQueryAttention& a, const char* name, const Tensor& x,
                 const RankContext& ranks) {
  ModuleScope scope(name);
  const Tensor y = ranks.weights->linear(x);
  return a.biases ? y + ranks.weights->get("bias") : y;
}

// Returns the sum of the ranks' partial outputs, plus the bias once.
Tensor summed_output(const GroupedQueryAttention& a, const Tensor& heads_TD, const RankContext& ranks) {
  const Tensor sum_ND = ranks.tensor->reduce_scatter(linear("wo", heads_TD, ranks));
  if (!a.biases) return sum_ND;
  ModuleScope scope("wo");
  return sum_ND + ranks.weights->get("bias");
}

// Returns queries or keys [T, heads * K], normalized and viewed as heads.
Tensor normed_heads(const GroupedQueryAttention& a, const char* norm, const Tensor& x, std::int64_t heads,
                    const RankContext& ranks, const ForwardInputs& inputs) {
  const auto as_heads = [&](const Tensor& y) { return y.view({inputs.rows, inputs.length, -1, a.head_dim}); };
  switch (a.qk_norm) {
    case QkNorm::per_head:
      return rms_norm(norm, as_heads(x), ranks, a.norm_eps);
    case QkNorm::whole:
      return as_heads(shared_rms_norm(norm, x, heads * a.head_dim, ranks, a.norm_eps));
    case QkNorm::none:
    case QkNorm::rotated:
      break;
  }
  return as_heads(x);
}

// Applies the positions of their tokens to the heads [B, T, heads, K].
Tensor placed(const GroupedQueryAttention& a, const Tensor& x, const RotaryTables& rope) {
  const Tensor rotated = rotate(x, rope, a.pairs);
  return a.qk_norm == QkNorm::rotated ? unweighted_rms_norm(rotated, a.norm_eps) : rotated;
}

}  // namespace

Tensor attention(const GroupedQueryAttention& a, const Tensor& x_ND, const RankContext& ranks,
                 const RotaryTables& rope, const ForwardInputs& inputs) {
  ModuleScope scope("attention");
  const Tensor all_ND = ranks.tensor->all_gather(x_ND);
  // Separate statements: C++ leaves the order of arguments unspecified, and all ranks must gather
  // in the same order.
  const Tensor queries = projected(a, "wq", all_ND, ranks);
  const Tensor keys = projected(a, "wk", all_ND, ranks);
  const Tensor values = projected(a, "wv", all_ND, ranks);
  const Tensor q_BTHK = normed_heads(a, "q_norm", queries, a.heads, ranks, inputs);
  const Tensor k_BTGK = normed_heads(a, "k_norm", keys, a.kv_heads, ranks, inputs);
  const Tensor v_BTGK = values.view({k_BTGK.size(0), k_BTGK.size(1), -1, a.head_dim});
  const Tensor placed_q = placed(a, q_BTHK, rope);
  const Tensor grown_q =
      a.queries_grow ? (placed_q * rope.query_growth).to(placed_q.scalar_type()) : placed_q;
  const Tensor q = grown_q.transpose(1, 2);
  const Tensor k_BSGK = ranks.context->all_gather(placed(a, k_BTGK, rope));
  const Tensor v_BSGK = ranks.context->all_gather(v_BTGK);
  const auto sinks = a.sinks ? std::optional(ranks.weights->get("sinks")) : std::nullopt;
  const Tensor out_BHTK = ranks.context->attention({.q = q,
                                                    .k = k_BSGK.transpose(1, 2),
                                                    .v = v_BSGK.transpose(1, 2),
                                                    .document_borders = inputs.document_borders_N,
                                                    .scale = 1.0 / std::sqrt(static_cast<double>(a.head_dim)),
                                                    .mask = a.mask,
                                                    .sinks = sinks,
                                                    .query_positions = inputs.query_positions_BT,
                                                    .key_positions = inputs.key_positions_BS});
  return summed_output(a, out_BHTK.transpose(1, 2).reshape({inputs.rows * inputs.length, -1}), ranks);
}

}  // namespace rondo

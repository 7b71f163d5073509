// Attention: q [B, H, T, D], k [B, G, S, D], v [B, G, S, V]; results have the dimensions of q. A
// rank has some batches or some heads, or some queries of each row and all keys if the queries have
// positions.
#include <algorithm>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/ops/price.h"
#include "compiler/text/text.h"
#include "ops/attention/attention_mask.h"

namespace rondo::ir {
namespace {

// rondo.attention (q, k, v, document_borders, scale, left, right, chunk, sinks, query_positions,
// key_positions, query_runs); rondo.attention_backward (grad, q, k, v, output, logsumexp,
// document_borders, scale, left, right, chunk, query_positions, key_positions, query_runs).
struct Attention {
  ValueId q, k, v, query_positions, key_positions;
  ValueId sinks;                    // of the forward
  ValueId grad, output, logsumexp;  // of the backward
  bool has_neighbours = false;      // a rank's queries are one run of each row
  AttentionMask mask;               // causal by default
};
Attention read_attention(const Node& node, bool backward) {
  const auto id = [&](std::size_t position) { return operand(node, position); };
  const std::size_t q = backward ? 1 : 0, terms = backward ? 8 : 5, positions = backward ? 11 : 9;
  Attention a;
  a.q = id(q), a.k = id(q + 1), a.v = id(q + 2);
  a.query_positions = id(positions), a.key_positions = id(positions + 1);
  a.sinks = id(8), a.grad = id(0), a.output = id(4), a.logsumexp = id(5);
  a.has_neighbours = integer(node, positions + 2) == 1;
  std::size_t at = terms;
  for (std::int64_t* term : {&a.mask.left, &a.mask.right, &a.mask.chunk})
    if (const auto* value = argument<std::int64_t>(node, at++)) *term = *value;
  return a;
}

Placement by_batch_or_head(const Placement& p) {
  if (p.kind == Placement::Kind::replicated || p == sharded(0) || p == sharded(1)) return p;
  throw Refused{"its operands are sharded along neither batch nor head: \"" + print(p) + "\""};
}
bool divides_queries(const OnAxis& axis, const Attention& a) {
  return axis.of(a.q) == sharded(0) && axis.of(a.k) == kReplicated && axis.of(a.v) == kReplicated &&
         a.query_positions != kNoValue && axis.of(a.query_positions) == sharded(0) &&
         axis.of(a.key_positions) == kReplicated;
}
Placement attention(const OnAxis& axis, std::size_t) {
  const Attention a = read_attention(axis.node, false);
  const Placement q = axis.of(a.q);
  if (!divides_queries(axis, a) && (q != axis.of(a.k) || q != axis.of(a.v)))
    throw Refused{"its queries, keys and values are sharded differently"};
  if (a.sinks != kNoValue && axis.of(a.sinks) != (q == sharded(1) ? sharded(0) : kReplicated))
    throw Refused{"its sinks are not sharded like its heads: \"" + print(axis.of(a.sinks)) + "\""};
  return by_batch_or_head(q);
}
Placement attention_backward(const OnAxis& axis, std::size_t i) {
  const Attention a = read_attention(axis.node, true);
  const Placement q = by_batch_or_head(axis.of(a.q));
  const bool divides = divides_queries(axis, a);
  const auto differs = [&](ValueId id) { return axis.of(id) != q; };
  if ((!divides && (differs(a.k) || differs(a.v))) || differs(a.output) || differs(a.logsumexp))
    throw Refused{"its operands are sharded differently"};
  const Placement of_queries = product_of(axis.of(a.grad), q);
  return divides && i > 0 && of_queries == q ? kPartialSum : of_queries;
}
// (grad, output, logsumexp, sinks)
Placement attention_sinks_backward(const OnAxis& axis, std::size_t) {
  const Placement output = by_batch_or_head(axis.operand(1));
  if (axis.operand(2) != output) throw Refused{"its operands are sharded differently"};
  const Placement of_tokens = product_of(axis.operand(0), output);
  if (of_tokens == sharded(0)) return kPartialSum;
  return of_tokens == sharded(1) ? sharded(0) : of_tokens;
}

// Counts products of width D and of width V for the pairs that the mask allows. T of S queries have
// their share of all pairs, as if each row were one document. The backward recomputes the scores,
// and computes their gradient and those of q, k and v.
template <bool Backward>
double attention_flops(const Graph& graph, const Node& node) {
  const Attention a = read_attention(node, Backward);
  const auto q = sizes_of(graph, a.q), k = sizes_of(graph, a.k), v = sizes_of(graph, a.v);
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[2] == 0) return 0;
  const double of_all = static_cast<double>(q[2]) / static_cast<double>(k[2]);
  const double pairs = static_cast<double>(q[0] * q[1]) * of_all * attended_pairs(a.mask, k[2]);
  const double of_qk = Backward ? 3 : 1, of_v = Backward ? 2 : 1;
  return 2 * pairs * (of_qk * static_cast<double>(q[3]) + of_v * static_cast<double>(v[3]));
}

// Returns the share of the rate for long sequences. `half` is the causal sequence length with half
// of that rate. A query counts the average number of keys that its mask allows.
double share_of_long_sequences(const AttentionMask& mask, std::int64_t keys, double half) {
  const double seen = attended_pairs(mask, keys) / static_cast<double>(keys);
  return 2 * seen / (2 * seen + half);
}

// Returns the work of the busiest rank over the mean. If each rank has one run of queries, the last
// rank has nearly all keys under a causal mask, and the others wait for it.
double busiest_over_mean(const Attention& a, std::int64_t queries, std::int64_t keys) {
  const bool causal = a.mask.left == AttentionMask::kUnlimited && a.mask.right == 0 && a.mask.chunk == 0;
  if (!a.has_neighbours || !causal || queries >= keys) return 1;
  return 2 - static_cast<double>(queries) / static_cast<double>(keys);
}

template <bool Backward>
NodeCost attention_cost(const Priced& p) {
  const Attention a = read_attention(p.node, Backward);
  const DeviceModel& d = p.device;
  const std::int64_t queries = p.type(a.q).sizes[2], keys = p.type(a.k).sizes[2];
  const double operations = p.flops * busiest_over_mean(a, queries, keys);
  // If keys have positions, Rondo's kernel multiplies row by row.
  if (d.is_gpu && a.key_positions != kNoValue)
    return {operations / (p.peak * d.any_positions_fraction), CostKind::attention};
  const double fraction =
      d.sustained_fraction * (Backward ? d.attention_backward_fraction : d.attention_forward_fraction);
  const double half = Backward ? d.attention_backward_half : d.attention_forward_half;
  return {operations / (p.peak * fraction * share_of_long_sequences(a.mask, std::max(queries, keys), half)),
          CostKind::attention};
}

// rondo.latent_keys (kv, rotated, plain), rondo.latent_keys_backward (grad_k, grad_v, plain), each
// [B, S, H, D]: `rotated` has one head for all, and its gradient is summed over a rank's heads.
Placement whole_heads(const Placement& p) {
  if (p.kind == Placement::Kind::inner || p == sharded(3))
    throw Refused{"it needs whole heads, but each rank has a part of them"};
  return p;
}
Placement latent_keys(const OnAxis& axis, std::size_t) {
  if (axis.operand(1) == sharded(2)) throw Refused{"its rotated part is sharded along the heads"};
  return sum_of(whole_heads(axis.operand(0)), whole_heads(axis.operand(1)));
}
Placement latent_keys_backward(const OnAxis& axis, std::size_t i) {
  const Placement grad = sum_of(whole_heads(axis.operand(0)), whole_heads(axis.operand(1)));
  return i == 1 && grad.kind == Placement::Kind::sharded && grad.dim == 2
             ? Placement{kPartialSum.kind, 0, grad.repeated}
             : grad;
}

constexpr Op kAttentionOps[] = {
    {.name = "rondo.attention.default",
     .signature = {3, 12, 2},
     .shard = attention,
     .flops = attention_flops<false>,
     .cost = attention_cost<false>},
    {.name = "rondo.attention_backward.default",
     .signature = {6, 14, 3},
     .shard = attention_backward,
     .flops = attention_flops<true>,
     .cost = attention_cost<true>,
     .launches = 3},
    {.name = "rondo.attention_sinks_backward.default",
     .signature = {4, 4, 1},
     .shard = attention_sinks_backward},
    {.name = "rondo.latent_keys.default", .signature = {2, 3, 1}, .shard = latent_keys},
    {.name = "rondo.latent_keys_backward.default", .signature = {2, 3, 2}, .shard = latent_keys_backward},
};

}  // namespace

std::span<const Op> attention_ops() { return kAttentionOps; }

}  // namespace rondo::ir

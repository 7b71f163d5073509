// Matrix products, and fused ops that hold some. Contracting over a dimension of which each rank has a part
// gives a summand. An axis cuts the result along one dimension at most.
#include "compiler/text/text.h"
#include "compiler/verify/sharding_rules.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

// Of a [.., M, K] and a [.., K, N]: which dimension of the result, or of what is contracted, an operand's is.
constexpr int kContracted = -1;
struct Dims {
  int left[3];
  int right[3];
};

Placement contract(const Placement& a, const Placement& b, const Dims& dims) {
  const auto cut = [](const Placement& p) { return p.kind == Kind::sharded; };
  if (a.kind == Kind::inner || b.kind == Kind::inner)
    throw Refused{"it multiplies by what is flattened, of which each rank has a part"};
  if ((cut(a) && a.dim > 2) || (cut(b) && b.dim > 2)) throw Refused{"its operands are no matrices"};
  const int left = cut(a) ? dims.left[a.dim] : 0, right = cut(b) ? dims.right[b.dim] : 0;
  if (cut(a) && cut(b)) {
    if (left == kContracted && right == kContracted) return kPartialSum;
    if (left == right && left != kContracted) return sharded(left);  // of the batch
    throw Refused{"each rank has other rows, and multiplies them by other columns"};
  }
  if ((cut(a) && left == kContracted) || (cut(b) && right == kContracted)) {
    const Placement& other = cut(a) ? b : a;
    if (other.kind != Kind::zero)
      throw Refused{"it contracts over a dimension of which each rank has a part of one operand alone"};
  }
  Placement moved_a = a, moved_b = b;
  if (cut(a)) moved_a.dim = static_cast<std::int8_t>(left);
  if (cut(b)) moved_b.dim = static_cast<std::int8_t>(right);
  return product_of(moved_a, moved_b);
}

constexpr Dims kMatrices = {{0, kContracted}, {kContracted, 1}};
constexpr Dims kBatches = {{0, 1, kContracted}, {0, kContracted, 2}};

Placement mm(const OnAxis& at, std::size_t) { return contract(at.operand(0), at.operand(1), kMatrices); }
Placement bmm(const OnAxis& at, std::size_t) { return contract(at.operand(0), at.operand(1), kBatches); }
Placement addmm(const OnAxis& at, std::size_t) {
  Placement bias = at.operand(0);
  if (bias.kind == Kind::sharded && at.type(0).sizes.size() == 1) bias.dim = 1;
  return sum_of(bias, contract(at.operand(1), at.operand(2), kMatrices));
}

// (x, block_rows, block_columns, ...) -> values, scales; a block of 0 reaches over all that the rank has.
Placement quantize_float8(const OnAxis& at, std::size_t i) {
  const Placement x = nonlinear(at.operand(0));
  if (x.kind == Kind::inner) throw Refused{"it needs a matrix, and takes what is flattened"};
  const bool is_cut = i == 1 && x.kind == Kind::sharded;
  return is_cut && at.integer(1 + static_cast<std::size_t>(x.dim)) == 0 ? kLocal : x;
}
// (a, scale_a, b, scale_b, ...): a [M, K] times the transpose of b [N, K].
Placement float8_mm(const OnAxis& at, std::size_t) {
  for (const std::size_t values : {0, 2}) {
    const Placement p = at.operand(values), scales = at.operand(values + 1);
    if (scales != p && !(p.kind == Kind::sharded && scales == kLocal))
      throw Refused{"its scales are not those of its values: \"" + print(scales) + "\" and \"" + print(p) +
                    "\""};
  }
  return contract(at.operand(0), at.operand(2), {{0, kContracted}, {1, kContracted}});
}

// Rows by expert [R, K] times the matrices of the experts [E, K, N]; or two matrices whose contracted
// dimension is cut into runs, a result for each. Rows that a rank has for its own experts are local.
Placement grouped_mm(const OnAxis& at, std::size_t) {
  const Placement a = at.operand(0), b = at.operand(1);
  const bool of_runs = at.type(1).sizes.size() == 2;
  if (of_runs) {
    if (a.kind == Kind::local || b.kind == Kind::local) return product_of(a, b), sharded(0);
    return contract(a, b, {{1, kContracted}, {kContracted, 2}});
  }
  if (b == sharded(0)) {
    if (a.kind == Kind::local || a.kind == Kind::zero) return a;
    throw Refused{"rows that are not of this rank's experts meet their matrices"};
  }
  return contract(a, b, {{0, kContracted}, {0, kContracted, 1}});
}

// (q, k, v, ...), [batch, heads, tokens, width]; results likewise.
Placement by_batch_or_head(const Placement& p) {
  if (p.kind == Kind::replicated || p == sharded(0) || p == sharded(1)) return p;
  throw Refused{"its operands are cut by neither batch nor head: \"" + print(p) + "\""};
}
// Some queries of each row on every rank, and all keys, where queries say their places: their argument, and
// that of the keys'. The results are of the queries.
bool divides_queries(const OnAxis& at, std::size_t q, std::size_t query_positions) {
  return at.operand(q) == sharded(0) && at.operand(q + 1) == kReplicated &&
         at.operand(q + 2) == kReplicated && at.has(query_positions) &&
         at.operand(query_positions) == sharded(0) && at.operand(query_positions + 1) == kReplicated;
}
// (q, k, v, borders, scale, left, right, chunk, sinks, query_positions, key_positions)
Placement attention(const OnAxis& at, std::size_t) {
  const Placement q = at.operand(0), k = at.operand(1), v = at.operand(2);
  const bool divides = divides_queries(at, 0, 9);
  if (!divides && (q != k || q != v)) throw Refused{"its queries, keys and values are cut in different ways"};
  if (at.has(8) && at.operand(8) != (q == sharded(1) ? sharded(0) : kReplicated))
    throw Refused{"its sinks are not those of its heads: \"" + print(at.operand(8)) + "\""};
  return by_batch_or_head(q);
}
// (gradient, q, k, v, output, logsumexp, borders, scale, left, right, chunk, query_positions, key_positions)
Placement attention_backward(const OnAxis& at, std::size_t i) {
  const Placement q = by_batch_or_head(at.operand(1));
  const bool divides = divides_queries(at, 1, 11);
  for (std::size_t operand = divides ? 4 : 2; operand < 6; ++operand)
    if (at.operand(operand) != q) throw Refused{"its operands are cut in different ways"};
  const Placement of_queries = product_of(at.operand(0), q);
  return divides && i > 0 && of_queries == q ? kPartialSum : of_queries;
}
Placement attention_sinks_backward(const OnAxis& at, std::size_t) {  // (gradient, output, logsumexp, sinks)
  const Placement output = by_batch_or_head(at.operand(1));
  if (at.operand(2) != output) throw Refused{"its operands are cut in different ways"};
  const Placement of_tokens = product_of(at.operand(0), output);
  if (of_tokens == sharded(0)) return kPartialSum;
  return of_tokens == sharded(1) ? sharded(0) : of_tokens;
}

// A sum over the rows that results of rows are cut by.
Placement over_rows(const Placement& rows) { return rows == sharded(0) ? kPartialSum : rows; }
Placement of_rows(const Placement& p) {
  if (p.kind == Kind::inner || (p.kind == Kind::sharded && p.dim != 0))
    throw Refused{"it needs whole rows, of which each rank has a part"};
  return p;
}
Placement whole_weight(const OnAxis& at, std::size_t i) {
  const Placement weight = at.operand(i);
  if (weight != kReplicated)
    throw Refused{"its weight is \"" + print(weight) + "\", and rows meet all of it"};
  return weight;
}

Placement whole_rows(const OnAxis& at, const Placement& x) {
  const int last = static_cast<int>(at.type(0).sizes.size()) - 1;
  if (x.kind == Kind::inner || x == sharded(last)) of_rows(sharded(1));
  return x;
}
Placement rms_norm(const OnAxis& at, std::size_t) {
  whole_weight(at, 1);
  return whole_rows(at, nonlinear(at.operand(0)));
}
// (x, residual, weight, eps): their sum, and the norm of it.
Placement add_rms_norm(const OnAxis& at, std::size_t) {
  whole_weight(at, 2);
  return whole_rows(at, nonlinear(sum_of(at.operand(0), at.operand(1))));
}
// (gradient, x, weight, inverse_rms), and what is added to the gradient of x.
Placement rms_norm_backward(const OnAxis& at, std::size_t i) {
  whole_weight(at, 2);
  const Placement x = product_of(at.operand(0), nonlinear(at.operand(1)));
  if (i == 0) return at.has(4) ? sum_of(x, at.operand(4)) : x;
  return x.kind == Kind::sharded ? kPartialSum : x;
}

// (logits, labels, ignored) -> the sum of the losses of all rows; and of each row what the backward reads.
Placement cross_entropy(const OnAxis& at, std::size_t i) {
  const Placement rows = of_rows(product_of(nonlinear(at.operand(0)), nonlinear(at.operand(1))));
  return i == 0 ? over_rows(rows) : rows;
}
// (gradient, logits, labels, largest, sum, ignored)
Placement cross_entropy_backward(const OnAxis& at, std::size_t) {
  Placement rows = of_rows(nonlinear(at.operand(1)));
  for (std::size_t i = 2; i < 5; ++i) rows = product_of(rows, nonlinear(at.operand(i)));
  return product_of(at.operand(0), rows);
}

// The head and the loss of rows h [N, D], of a whole vocabulary: (h, weight, ...) -> losses, gradients of h
// and weight, workspace.
Placement whole_vocabulary(const OnAxis& at, std::size_t i) {
  whole_weight(at, 1);
  const Placement h = of_rows(nonlinear(at.operand(0)));
  return i == 2 ? over_rows(h) : h;
}
// What a row's label is, to a rank with a part of the vocabulary.
void check_place(const OnAxis& at) {
  if (at.operand(2).kind != Kind::local)
    throw Refused{"it looks for labels of all in one part of the vocabulary"};
}
// Of a part of it: (h, weight, place, ...) -> largest, sum, logit, workspace. Ranks exchange them in words of
// their own: the sums are scaled to the largest of all before they are added.
Placement statistics(const OnAxis& at, std::size_t i) {
  if (at.operand(1) == sharded(0)) {
    if (at.operand(0) != kReplicated)
      throw Refused{"ranks with other rows have other parts of the vocabulary"};
    check_place(at);
    return i == 0 ? kPartialMax : i == 1 ? kPartialSum : kLocal;
  }
  whole_weight(at, 1);
  return of_rows(nonlinear(at.operand(0)));
}
// (h, weight, place, largest, sum, gradient, place_gradient, ...) -> gradients of h and weight, workspace.
Placement part_gradients(const OnAxis& at, std::size_t i) {
  if (at.operand(1) == sharded(0)) {
    if (at.operand(0) != kReplicated || at.operand(3) != kReplicated || at.operand(4) != kReplicated)
      throw Refused{"its statistics are not those of the whole vocabulary"};
    check_place(at);
    return i == 0 ? kPartialSum : i == 1 ? sharded(0) : kLocal;
  }
  whole_weight(at, 1);
  const Placement h = of_rows(nonlinear(at.operand(0)));
  return i == 1 ? over_rows(h) : h;
}

constexpr NamedRule kProductRules[] = {
    {"aten.addmm.default", addmm},
    {"aten.bmm.default", bmm},
    {"aten.mm.default", mm},
    {"rondo.addmm.default", addmm},
    {"rondo.attention.default", attention},
    {"rondo.attention_backward.default", attention_backward},
    {"rondo.attention_sinks_backward.default", attention_sinks_backward},
    {"rondo.cross_entropy.default", cross_entropy},
    {"rondo.cross_entropy_backward.default", cross_entropy_backward},
    {"rondo.float8_mm.default", float8_mm},
    {"rondo.grouped_mm.default", grouped_mm},
    {"rondo.linear_cross_entropy.default", whole_vocabulary},
    {"rondo.linear_cross_entropy_gradients.default", part_gradients},
    {"rondo.linear_cross_entropy_losses.default", whole_vocabulary},
    {"rondo.linear_cross_entropy_statistics.default", statistics},
    {"rondo.mm.default", mm},
    {"rondo.quantize_float8.default", quantize_float8},
    {"rondo.rms_norm.default", rms_norm},
    {"rondo.add_rms_norm.default", add_rms_norm},
    {"rondo.add_rms_norm_backward.default", rms_norm_backward},
    {"rondo.rms_norm_backward.default", rms_norm_backward},
};

}  // namespace

std::span<const NamedRule> product_rules() { return kProductRules; }

}  // namespace rondo::ir

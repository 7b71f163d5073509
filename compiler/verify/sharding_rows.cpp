// Ops that pick rows by ids, and what carries rows to their experts and back. What a rank picks with ids of
// its own part is local; where all ranks together have each row once, their sums are summands.
#include <fmt/format.h>

#include "compiler/text/text.h"
#include "compiler/verify/sharding_rules.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

// (ids, first, count, otherwise, group) or (x, dim, place, group): of what all ranks know.
Placement local_ids(const OnAxis& at, std::size_t) {
  const Placement ids = at.operand(0);
  if (!at.in_group) return ids;
  if (ids != kReplicated)
    throw Refused{"what it chooses from is not the same on all ranks, but \"" + print(ids) + "\""};
  return kLocal;
}

// Whole rows of `table` for `ids`, whose dimensions the result begins with.
Placement pick_rows(const Placement& table, const Placement& ids, std::size_t id_dims) {
  if (table == sharded(0)) {
    if (ids.kind == Kind::local) return kLocal;
    throw Refused{"it looks for ids of the whole table in one part of it"};
  }
  Placement row = table;
  if (row.kind == Kind::sharded) row.dim = static_cast<std::int8_t>(row.dim - 1 + static_cast<int>(id_dims));
  return product_of(row, ids);
}
Placement embedding(const OnAxis& at, std::size_t) {
  return pick_rows(at.operand(0), nonlinear(at.operand(1)), at.type(1).sizes.size());
}
Placement index_select(const OnAxis& at, std::size_t) {  // (x, dim, index)
  if (at.integer(1) != 0) throw Refused{"it picks along another dimension than the first"};
  return pick_rows(at.operand(0), nonlinear(at.operand(2)), 1);
}
// (gradient, ids, rows, ...): the gradient of the table.
Placement embedding_backward(const OnAxis& at, std::size_t) {
  const Placement gradient = at.operand(0), ids = nonlinear(at.operand(1));
  if (ids.kind == Kind::local) {
    if (gradient.kind == Kind::partial_sum || gradient.kind == Kind::zero) return sharded(0);
    throw Refused{"rows that are not in this rank's part have a gradient that is not cleared"};
  }
  if (ids.kind == Kind::sharded) {
    if (gradient == ids) return kPartialSum;
    throw Refused{"its ids and gradients are cut in different ways"};
  }
  if (gradient == sharded(static_cast<int>(at.type(0).sizes.size()) - 1)) return sharded(1);
  return product_of(gradient, ids);
}

Placement gather_ids(const OnAxis& at, std::size_t) {  // (x, dim, index)
  const Placement x = at.operand(0), index = nonlinear(at.operand(2));
  const int dim = dim_of(at.integer(1), at.type(0).sizes.size());
  if (x == sharded(dim) && index.kind == Kind::local) return kLocal;
  if (x == sharded(dim)) throw Refused{"it looks for ids of a whole dimension in one part of it"};
  return product_of(x, index);
}

// (x, dim, index, source or number): x and what is added or put at the index.
Placement scatter_ids(const OnAxis& at, std::size_t) {
  const Placement x = at.operand(0), index = nonlinear(at.operand(2)), source = at.operand(3);
  const int dim = dim_of(at.integer(1), at.type(0).sizes.size());
  if (x == sharded(dim) && (index.kind == Kind::local || is_partial(source)))
    return product_of(source, index), x;
  const Placement put = product_of(source, index);
  return sum_of(x, put == sharded(dim) ? kPartialSum : put);
}

// (x, order, count, copies, scores): rows of x in an order. One of the rank's own is of what all have.
Placement permute_tokens(const OnAxis& at, std::size_t) {
  const Placement x = at.operand(0), order = nonlinear(at.operand(1));
  if (order.kind == Kind::local && x.kind == Kind::sharded)
    throw Refused{"an order of the rows of all ranks meets those of this rank"};
  return product_of(product_of(x, order), nonlinear(at.operand(4)));
}
// Sums over rows that a rank has, for all tokens: (rows, place) of tokens that ranks share.
Placement sums_of_rows(const Placement& rows, const Placement& place) {
  if (place.kind == Kind::local) {
    if (rows.kind == Kind::local || rows.kind == Kind::zero) return kPartialSum;
    throw Refused{"places of this rank's rows meet rows that are not its own"};
  }
  return product_of(rows, place);
}
Placement unpermute_tokens(const OnAxis& at, std::size_t) {  // (rows, place, count, scores)
  const Placement sums = sums_of_rows(at.operand(0), nonlinear(at.operand(1)));
  return product_of(sums, nonlinear(at.operand(3)));
}
Placement dot_rows(const OnAxis& at, std::size_t) {  // (rows, x, place, count)
  const Placement sums = sums_of_rows(at.operand(0), nonlinear(at.operand(2)));
  return product_of(sums, at.operand(1));
}
// (counts, rows, group): each rank's order of what it got; on other axes of its own rows among themselves.
Placement order_by_expert(const OnAxis& at, std::size_t) {
  const Placement counts = nonlinear(at.operand(0));
  if (!at.in_group) return counts == kReplicated ? counts : sharded(0);
  if (counts.kind != Kind::local)
    throw Refused{"what it orders by is not what this rank received, but \"" + print(counts) + "\""};
  return counts;
}
// (rows, offered, sent, received, back, result_rows, group): tokens of this rank to those of its experts, or
// back.
Placement all_to_all_tokens(const OnAxis& at, std::size_t) {
  const Placement rows = at.operand(0);
  if (!at.in_group) return rows;
  const auto* back = at.node.args.size() > 4 ? std::get_if<bool>(&at.node.args[4]) : nullptr;
  if (back != nullptr && *back && rows.kind == Kind::local) return sharded(0);
  if (back != nullptr && !*back && rows == sharded(0)) return kLocal;
  throw Refused{fmt::format("it sends rows that are \"{}\"", print(rows))};
}

constexpr NamedRule kRowRules[] = {
    {"aten.embedding.default", embedding},
    {"aten.embedding_dense_backward.default", embedding_backward},
    {"aten.gather.default", gather_ids},
    {"aten.index_select.default", index_select},
    {"aten.scatter.src", scatter_ids},
    {"aten.scatter.value", scatter_ids},
    {"aten.scatter_add.default", scatter_ids},
    {"rondo.all_to_all_tokens.default", all_to_all_tokens},
    {"rondo.dot_rows.default", dot_rows},
    {"rondo.local_ids.default", local_ids},
    {"rondo.local_part.default", local_ids},
    {"rondo.order_by_expert.default", order_by_expert},
    {"rondo.permute_tokens.default", permute_tokens},
    {"rondo.unpermute_tokens.default", unpermute_tokens},
};

}  // namespace

std::span<const NamedRule> row_rules() { return kRowRules; }

}  // namespace rondo::ir

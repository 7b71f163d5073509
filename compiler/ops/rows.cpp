// Ops that select rows by ids, and ops that send tokens to their experts and back. Rows that a rank
// selects by ids of its own part are local. If each row is on one rank, sums over rows are partial
// sums.
#include <fmt/format.h>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/ops/price.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

// rondo.local_ids (ids, first, count, otherwise, group), rondo.local_part (x, dim, place, group):
// select from values that are replicated.
Placement local_ids(const OnAxis& axis, std::size_t) {
  const Placement ids = axis.operand(0);
  if (!axis.in_group) return ids;
  if (ids != kReplicated) throw Refused{"its operand must be replicated, but is \"" + print(ids) + "\""};
  return kLocal;
}

// Returns the placement of whole rows of `table` at `ids`, whose dimensions come first in the
// result.
Placement pick_rows(const Placement& table, const Placement& ids, std::size_t id_dims) {
  if (table == sharded(0)) {
    if (ids.kind == Kind::local) return kLocal;
    throw Refused{"it looks up ids of the whole table in one part of it"};
  }
  Placement row = table;
  if (row.kind == Kind::sharded) row.dim = static_cast<std::int8_t>(row.dim - 1 + static_cast<int>(id_dims));
  return product_of(row, ids);
}
Placement embedding(const OnAxis& axis, std::size_t) {
  return pick_rows(axis.operand(0), nonlinear(axis.operand(1)), axis.type(1).sizes.size());
}
Placement index_select(const OnAxis& axis, std::size_t) {  // (x, dim, index)
  if (axis.integer(1) != 0) throw Refused{"it selects along a dimension other than the first"};
  return pick_rows(axis.operand(0), nonlinear(axis.operand(2)), 1);
}
// (gradient, ids, rows, ...) -> the gradient of the table.
Placement embedding_backward(const OnAxis& axis, std::size_t) {
  const Placement gradient = axis.operand(0), ids = nonlinear(axis.operand(1));
  if (ids.kind == Kind::local) {
    if (gradient.kind == Kind::partial_sum || gradient.kind == Kind::zero) return sharded(0);
    throw Refused{"the gradient of rows outside of this rank's part is not cleared"};
  }
  if (ids.kind == Kind::sharded) {
    if (gradient == ids) return kPartialSum;
    throw Refused{"its ids and gradients are sharded differently"};
  }
  if (gradient == sharded(static_cast<int>(axis.type(0).sizes.size()) - 1)) return sharded(1);
  return product_of(gradient, ids);
}

Placement gather_ids(const OnAxis& axis, std::size_t) {  // (x, dim, index)
  const Placement x = axis.operand(0), index = nonlinear(axis.operand(2));
  const int dim = dim_of(axis.integer(1), axis.type(0).sizes.size());
  if (x == sharded(dim) && index.kind == Kind::local) return kLocal;
  if (x == sharded(dim)) throw Refused{"it looks up ids of a whole dimension in one part of it"};
  return product_of(x, index);
}

// (x, dim, index, source or number) -> x with the source written to the index or added there.
Placement scatter_ids(const OnAxis& axis, std::size_t) {
  const Placement x = axis.operand(0), index = nonlinear(axis.operand(2)), source = axis.operand(3);
  const int dim = dim_of(axis.integer(1), axis.type(0).sizes.size());
  if (x == sharded(dim) && (index.kind == Kind::local || is_partial(source)))
    return product_of(source, index), x;
  const Placement put = product_of(source, index);
  return sum_of(x, put == sharded(dim) ? kPartialSum : put);
}

// A lookup reads one row of its table per row of the result.
double bytes_without_table(const Graph& graph, const Node& node) {
  return operand_bytes(graph, node) + result_bytes(graph, node) - touched_bytes(first_operand(graph, node));
}

// LibTorch's kernel sorts the ids above kSortedRows rows.
std::int64_t embedding_backward_launches(const Graph& graph, const Node& node) {
  constexpr std::int64_t kSortedRows = 3072, kLaunchesOfSort = 30;
  const TensorType& gradient = first_operand(graph, node);
  return element_count(gradient) / gradient.sizes.back() > kSortedRows ? kLaunchesOfSort : 2;
}

// Returns the placement of rows to which an optional argument is added.
Placement with_addend(const OnAxis& axis, std::size_t argument) {
  return axis.has(argument) ? sum_of(axis.operand(0), axis.operand(argument)) : axis.operand(0);
}
// (x, order, count, copies, scores, addend). A rank's own order refers to rows that are replicated.
Placement permute_tokens(const OnAxis& axis, std::size_t) {
  const Placement x = with_addend(axis, 5), order = nonlinear(axis.operand(1));
  if (order.kind == Kind::local && x.kind == Kind::sharded)
    throw Refused{"it applies an order of replicated rows to rows of this rank only"};
  return product_of(product_of(x, order), nonlinear(axis.operand(4)));
}
// Returns the placement of sums over the rows of a rank, for tokens that ranks share.
Placement sums_of_rows(const Placement& rows, const Placement& place) {
  if (place.kind == Kind::local) {
    if (rows.kind == Kind::local || rows.kind == Kind::zero) return kPartialSum;
    throw Refused{"it applies places of this rank's rows to rows of other ranks"};
  }
  return product_of(rows, place);
}
// (rows, place, count, scores, narrow, addend)
Placement unpermute_tokens(const OnAxis& axis, std::size_t) {
  const Placement sums = sums_of_rows(with_addend(axis, 5), nonlinear(axis.operand(1)));
  return product_of(sums, nonlinear(axis.operand(3)));
}
// (x, pieces, group): the pieces are of the ranks of the group, which have exchanged partial sums.
Placement sum_pieces(const OnAxis& axis, std::size_t) {
  const Placement x = axis.operand(0);
  if (!axis.in_group) return x;
  if (x.kind == Kind::local || x.kind == Kind::zero) return sharded(0);
  throw Refused{"it sums pieces from all ranks, but its operand is \"" + print(x) + "\""};
}
Placement dot_rows(const OnAxis& axis, std::size_t) {  // (rows, x, place, count)
  const Placement sums = sums_of_rows(axis.operand(0), nonlinear(axis.operand(2)));
  return product_of(sums, axis.operand(1));
}
// (x, bias, ends): adds the bias of its expert to each row. A rank's rows for its own experts are
// local.
Placement grouped_add(const OnAxis& axis, std::size_t) {
  const Placement x = axis.operand(0), bias = axis.operand(1);
  if (bias != sharded(0)) return sum_of(x, bias);
  if (x.kind == Kind::local) return x;
  throw Refused{"it adds the biases of this rank's experts to rows of other experts"};
}
// (x, ends) -> the sum of each expert's rows.
Placement grouped_sum(const OnAxis& axis, std::size_t) {
  const Placement x = product_of(axis.operand(0), kReplicated);
  if (x.kind == Kind::local) return sharded(0);
  if (x.kind == Kind::inner) throw Refused{"it needs a matrix, but its operand is flattened"};
  return x == sharded(0) ? kPartialSum : x;
}
// (keys, kinds) -> order, place and counts. A rank's keys have an order and counts of their own.
Placement sort_slots(const OnAxis& axis, std::size_t i) {
  const Placement keys = nonlinear(axis.operand(0));
  return i < 2 || keys == kReplicated ? keys : kLocal;
}
// (counts, rows, group) -> the order of the rank's own rows.
Placement order_by_expert(const OnAxis& axis, std::size_t) {
  const Placement counts = nonlinear(axis.operand(0));
  return counts == kReplicated ? counts : sharded(0);
}
// (rows, offered, sent, received, back, result_rows, group): sends rows to the ranks of their
// experts, or back.
Placement all_to_all_tokens(const OnAxis& axis, std::size_t) {
  const Placement rows = axis.operand(0);
  if (!axis.in_group) return rows;
  const auto* back = argument<bool>(axis.node, 4);
  if (back != nullptr && *back && rows.kind == Kind::local) return sharded(0);
  if (back != nullptr && !*back && rows == sharded(0)) return kLocal;
  throw Refused{fmt::format("it sends rows that are \"{}\"", print(rows))};
}

constexpr Op kRowOps[] = {
    {.name = "aten.embedding.default", .shard = embedding, .bytes = bytes_without_table},
    {.name = "aten.embedding_dense_backward.default",
     .shard = embedding_backward,
     .count_launches = embedding_backward_launches},
    {.name = "aten.gather.default", .shard = gather_ids},
    {.name = "aten.index_select.default", .shard = index_select, .bytes = bytes_without_table},
    {.name = "aten.masked_select.default", .effect = Effect::host_sync},
    {.name = "aten.nonzero.default", .effect = Effect::host_sync},
    {.name = "aten.scatter.src", .shard = scatter_ids},
    {.name = "aten.scatter.value", .shard = scatter_ids},
    {.name = "aten.scatter_add.default", .shard = scatter_ids},
    {.name = "rondo.local_ids.default", .signature = {1, 5, 2}, .shard = local_ids, .group = 4},
    {.name = "rondo.local_part.default", .signature = {1, 4, 1}, .shard = local_ids, .group = 3},

    {.name = "rondo.all_to_all_tokens.default",
     .signature = {4, 7, 1},
     .effect = Effect::host_sync,
     .collective = CollectiveFacts{.kind = CollectiveKind::all_to_all, .group = 6},
     .shard = all_to_all_tokens,
     .keeps_parts = true},
    {.name = "rondo.dot_rows.default", .signature = {3, 4, 1}, .shard = dot_rows},
    {.name = "rondo.grouped_add.default", .signature = {3, 3, 1}, .reuses = 0, .shard = grouped_add},
    {.name = "rondo.grouped_sum.default", .signature = {2, 2, 1}, .shard = grouped_sum, .launches = 2},
    {.name = "rondo.order_by_expert.default", .signature = {1, 3, 2}, .shard = order_by_expert},
    {.name = "rondo.permute_tokens.default", .signature = {2, 6, 1}, .shard = permute_tokens},
    {.name = "rondo.sort_slots.default",
     .signature = {1, 2, 3},
     .slow_to_repeat = true,
     .shard = sort_slots,
     .launches = 3},
    {.name = "rondo.sum_pieces.default",
     .signature = {1, 3, 1},
     .slow_to_repeat = true,  // its operand, which would be kept, is larger
     .shard = sum_pieces,
     .group = 2},
    {.name = "rondo.unpermute_tokens.default", .signature = {2, 6, 1}, .shard = unpermute_tokens},
};

}  // namespace

std::span<const Op> row_ops() { return kRowOps; }

}  // namespace rondo::ir

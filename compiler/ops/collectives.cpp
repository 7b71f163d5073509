// Collectives and transfers, and the waits for them. A collective changes the placement on the axes
// of its group only.
#include <algorithm>
#include <array>
#include <functional>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

Placement all_gather(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (!axis.in_group) return p;
  // Gathers the counts of each rank.
  if (p.kind == Kind::local && !is_float(axis.type(0).dtype)) return kReplicated;
  if (p.kind != Kind::sharded || p.dim != 0)
    throw Refused{"it gathers the rows of all ranks, but they are \"" + print(p) + "\""};
  return Placement{Kind::replicated, 0, p.repeated};
}

bool is_sum(const OnAxis& axis) { return collective_of(axis.node)->reduction == "sum"; }

Placement reduce_scatter(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (!axis.in_group) return p;
  if (!is_sum(axis)) throw Refused{"its reduction is not a sum"};
  if (p.kind == Kind::partial_sum || p.kind == Kind::zero) return sharded(0);
  if (p == kReplicated) return Placement{Kind::sharded, 0, /*repeated=*/true};
  throw Refused{"it sums over ranks, but its operand is \"" + print(p) + "\""};
}

Placement all_reduce(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (!axis.in_group) return p;
  if (p.kind == Kind::zero) return p;
  if (!is_sum(axis)) {
    if (p.kind == Kind::partial_max || p == kReplicated) return kReplicated;
    throw Refused{"it takes the maximum over ranks, but its operand is \"" + print(p) + "\""};
  }
  if (p.kind == Kind::partial_sum && !p.repeated) return kReplicated;
  if (p == kReplicated) return Placement{Kind::replicated, 0, /*repeated=*/true};
  throw Refused{"it sums over ranks, but its operand is \"" + print(p) + "\""};
}

Placement broadcast(const OnAxis& axis, std::size_t) { return axis.in_group ? kReplicated : axis.operand(0); }

Placement all_to_all(const OnAxis& axis, std::size_t) {
  const Placement p = axis.operand(0);
  if (!axis.in_group || p == sharded(0)) return p;
  // Each rank gets the terms of its own sums, which rondo.sum_pieces adds.
  if (p == kPartialSum || p.kind == Kind::zero) return kLocal;
  // Exchanges pieces [n, P, Q]: each rank has rows of a matrix, then columns, or the reverse. The
  // shards of flat tensors are columns, however these were divided.
  if (axis.type(0).sizes.size() == 3 && p.kind == Kind::inner) return sharded(1);
  if (axis.type(0).sizes.size() == 3 && (p == sharded(1) || p == sharded(2))) return sharded(3 - p.dim);
  throw Refused{"it exchanges rows, but they are \"" + print(p) + "\""};
}

constexpr std::string_view kAllToAll = "_c10d_functional.all_to_all_single.default";

constexpr Op collective(std::string_view name, CollectiveFacts facts, ShardingRule rule) {
  return {.name = name,
          .effect = Effect::collective_start,
          .collective = facts,
          .shard = rule,
          .keeps_parts = true};
}

constexpr Op kCollectiveOps[] = {
    collective(kAllGather, {.kind = CollectiveKind::all_gather, .group = 2, .ranks = 1}, all_gather),
    collective(kAllReduce, {.kind = CollectiveKind::all_reduce, .group = 2, .reduction = 1}, all_reduce),
    collective(kAllToAll, {.kind = CollectiveKind::all_to_all, .group = 3}, all_to_all),
    collective("_c10d_functional.broadcast.default", {.kind = CollectiveKind::broadcast, .group = 2},
               broadcast),
    collective(kReduceScatter,
               {.kind = CollectiveKind::reduce_scatter, .group = 3, .ranks = 2, .reduction = 1},
               reduce_scatter),
    {.name = kWaitTensor, .effect = Effect::wait, .shard = as_operand, .keeps_parts = true},

    {.name = kOffload, .effect = Effect::transfer_start, .shard = as_operand, .keeps_owner = true},
    {.name = kReload, .effect = Effect::transfer_start, .shard = as_operand, .keeps_owner = true},
    {.name = kWaitTransfer, .effect = Effect::wait, .shard = as_operand, .keeps_parts = true},
};

constexpr std::array<std::string_view, kCollectiveKinds> kCollectiveNames = {
    "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast"};

}  // namespace

std::span<const Op> collective_ops() { return kCollectiveOps; }

std::string_view collective_name(CollectiveKind kind) {
  return kCollectiveNames[static_cast<std::size_t>(kind)];
}

std::optional<Collective> collective_of(const Node& node) {
  const Op& op = facts(node.op);
  if (!op.collective) return std::nullopt;
  const auto text = [&](int position) {
    const auto* value = argument<std::string>(node, static_cast<std::size_t>(position));
    return value != nullptr ? std::string_view(*value) : std::string_view();
  };
  return Collective{.kind = op.collective->kind,
                    .group = text(op.collective->group),
                    .ranks = integer(node, static_cast<std::size_t>(op.collective->ranks)),
                    .reduction = text(op.collective->reduction)};
}

bool is_collective(const Node& node, CollectiveKind kind) {
  const Op& op = facts(node.op);
  return op.collective && op.collective->kind == kind;
}

bool sends_equal_pieces(const Node& node) {
  if (node.op != kAllToAll) return false;
  for (const std::size_t splits : {1, 2}) {
    const auto* rows = argument<std::vector<std::int64_t>>(node, splits);
    if (rows == nullptr ||
        std::adjacent_find(rows->begin(), rows->end(), std::not_equal_to<>()) != rows->end())
      return false;
  }
  return true;
}

}  // namespace rondo::ir

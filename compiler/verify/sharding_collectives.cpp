// Collectives: each takes what it is for, on the axes of its group, and leaves the other axes alone.
#include "compiler/ir/op_facts.h"
#include "compiler/text/text.h"
#include "compiler/verify/sharding_rules.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

Placement all_gather(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (!at.in_group) return p;
  if (p.kind == Kind::local && is_integer(at.type(0).dtype)) return kReplicated;  // what each has counted
  if (p.kind != Kind::sharded || p.dim != 0)
    throw Refused{"it gathers the rows of all ranks, but they are \"" + print(p) + "\""};
  return Placement{Kind::replicated, 0, p.repeated};
}

bool is_sum(const OnAxis& at) { return collective_of(at.node)->reduction == "sum"; }

Placement reduce_scatter(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (!at.in_group) return p;
  if (!is_sum(at)) throw Refused{"it reduces by another reduction than a sum"};
  if (p.kind == Kind::partial_sum || p.kind == Kind::zero) return sharded(0);
  if (p == kReplicated) return Placement{Kind::sharded, 0, /*repeated=*/true};
  throw Refused{"it adds what ranks have, which is \"" + print(p) + "\""};
}

Placement all_reduce(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (!at.in_group) return p;
  if (p.kind == Kind::zero) return p;
  if (!is_sum(at)) {
    if (p.kind == Kind::partial_max || p == kReplicated) return kReplicated;
    throw Refused{"it takes the largest of what ranks have, which is \"" + print(p) + "\""};
  }
  if (p.kind == Kind::partial_sum && !p.repeated) return kReplicated;
  if (p == kReplicated) return Placement{Kind::replicated, 0, /*repeated=*/true};
  throw Refused{"it adds what ranks have, which is \"" + print(p) + "\""};
}

Placement broadcast(const OnAxis& at, std::size_t) { return at.in_group ? kReplicated : at.operand(0); }
Placement exchange(const OnAxis& at, std::size_t) {
  const Placement p = at.operand(0);
  if (!at.in_group || p == sharded(0)) return p;
  // Pieces [n, P, Q]: a matrix of which each rank has rows becomes one of which each has columns, or back.
  if (at.type(0).sizes.size() == 3 && (p == sharded(1) || p == sharded(2))) return sharded(3 - p.dim);
  throw Refused{"it exchanges rows, but they are \"" + print(p) + "\""};
}
Placement wait(const OnAxis& at, std::size_t) { return at.operand(0); }

constexpr NamedRule kCollectiveRules[] = {
    {kAllGather, all_gather},
    {kAllReduce, all_reduce},
    {kReduceScatter, reduce_scatter},
    {kWaitTensor, wait},
    {"_c10d_functional.all_to_all_single.default", exchange},
    {"_c10d_functional.broadcast.default", broadcast},
};

}  // namespace

std::span<const NamedRule> collective_rules() { return kCollectiveRules; }

}  // namespace rondo::ir

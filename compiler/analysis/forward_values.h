// The forward from the view of a memory policy: which nodes the backward may recompute, their
// results, and the readers.
//
// A storage belongs to the node that makes it, and views are created and dropped with it. A node is
// `optional` if it may be saved or recomputed: a forward node of a block that makes storages, has
// no effect that forbids it, and whose results are read only in the block's forward and in the
// backward. Gathers of parameters are not optional: they follow
// CompileOptions::reshard_after_forward.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// True where the node may read copies of forward values: in the backward except for the return.
inline bool is_backward(const Node& node) { return node.phase == Phase::backward && node.op != kReturn; }

// True where a second call of the op gives the same result and has no side effect.
bool is_repeatable(std::string_view op, const CompileOptions& options);

class ForwardValues {
 public:
  // `graph` outlives this. REQUIRES: no node overwrites anything.
  ForwardValues(const Graph& graph, const CompileOptions& options);

  bool is_optional(NodeIndex node) const { return optional_[node]; }
  std::int32_t block(NodeIndex node) const { return blocks_[node]; }
  // Returns the node that makes the storage of `value`; -1 for inputs.
  NodeIndex producer(ValueId value) const { return producer_[value]; }
  // Returns the forward nodes of a block that make storages, in order, without gathered parameters.
  const std::vector<NodeIndex>& producers_of(std::int32_t block) const { return of_block_[block]; }
  // Returns the bytes of the storages that a node makes.
  std::int64_t bytes(NodeIndex node) const;
  // Returns for each node whether a backward node reads a storage that it makes.
  IdMap<bool> producers_read_by_backward() const;

  // Returns the decision for each node, views included: every optional node is recomputed unless
  // `keep` is true for it.
  IdMap<bool> recompute_all_but(const IdMap<bool>& keep) const;

 private:
  const Graph& graph_;
  IdMap<std::int32_t> blocks_, parameters_;  // by node
  IdMap<NodeIndex> producer_;                // by value
  IdMap<bool> gathered_again_;               // by node
  // By node: has a reader outside of the block's forward and of the backward.
  IdMap<bool> leaves_;
  IdMap<bool> optional_;
  IdMap<std::vector<NodeIndex>> of_block_;
};

// The consequences of a decision.
struct RecomputePlan {
  IdMap<bool> again;  // by node: the backward recomputes it
  // Storages of blocks that the backward reads, without gathered parameters.
  std::vector<ValueId> saved;
  std::int64_t saved_bytes = 0;
};
RecomputePlan plan_recompute(const Graph& graph, const IdMap<bool>& recompute);

// Plans many decisions for one graph, which outlives this and does not change.
class RecomputePlanner {
 public:
  explicit RecomputePlanner(const Graph& graph);
  RecomputePlan plan(const IdMap<bool>& recompute) const;

 private:
  const Graph& graph_;
  DefUse def_use_;
  IdMap<ValueId> roots_;
  IdMap<bool> is_of_block_;  // by node: computes activations of a block
};

}  // namespace rondo::ir

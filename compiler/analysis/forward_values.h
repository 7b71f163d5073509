// The forward as a memory policy sees it: which nodes the backward may compute again, what they make, and who
// reads it.
//
// A storage belongs to the node that makes it; views come and go with it. A node is `optional` if it may be
// kept or computed again: a forward node of a block that makes storages, has no effect that forbids it, and
// whose results stay in the block's forward and in the backward. Gathering a parameter is no matter of
// policy: it follows CompileOptions::reshard_after_forward.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// Whether copies of forward values may serve the node: all of the backward but what the step returns.
inline bool is_backward(const Node& node) { return node.phase == Phase::backward && node.op != kReturn; }

// Whether calling an op twice gives the same and harms nobody.
bool is_repeatable(std::string_view op, const CompileOptions& options);

class ForwardValues {
 public:
  // `graph` outlives this. REQUIRES: no node overwrites anything.
  ForwardValues(const Graph& graph, const CompileOptions& options);

  bool is_optional(NodeIndex node) const { return optional_[node]; }
  std::int32_t block(NodeIndex node) const { return blocks_[node]; }
  // The node that makes the storage which `value` lives in; -1 for inputs.
  NodeIndex producer(ValueId value) const { return producer_[value]; }
  // The forward nodes of a block that make storages, other than gathered parameters, in order.
  const std::vector<NodeIndex>& producers_of(std::int32_t block) const { return of_block_[block]; }
  // Bytes of the storages that a node makes.
  std::int64_t bytes(NodeIndex node) const;
  // For each node whether a backward node reads a storage that it makes.
  IdMap<bool> producers_read_by_backward() const;

  // The decision for each node, views included, if every optional node is computed again unless `keep` says
  // otherwise.
  IdMap<bool> recompute_all_but(const IdMap<bool>& keep) const;

 private:
  const Graph& graph_;
  IdMap<std::int32_t> blocks_, parameters_;  // for each node
  IdMap<NodeIndex> producer_;                // for each value
  IdMap<bool> gathered_again_;               // for each node
  // For each node: somebody outside of the block's forward and the backward reads it.
  IdMap<bool> leaves_;
  IdMap<bool> optional_;
  IdMap<std::vector<NodeIndex>> of_block_;
};

// What a decision comes to.
struct RecomputePlan {
  IdMap<bool> again;          // for each node: the backward really computes it again
  std::vector<ValueId> kept;  // storages made in a block, gathered parameters aside, that the backward reads
  std::int64_t kept_bytes = 0;
};
RecomputePlan plan_recompute(const Graph& graph, const IdMap<bool>& recompute);

}  // namespace rondo::ir

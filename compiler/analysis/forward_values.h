// The forward as a memory policy sees it: which nodes the backward may compute again, what they make, and who
// reads it.
//
// A storage belongs to the node that makes it; views come and go with it. A node is `optional` if it may be
// kept or computed again: a forward node of a block that makes storages, has no effect that forbids it, and
// whose results stay in the block's forward and in the backward. Gathering a parameter is no matter of policy:
// it follows CompileOptions::reshard_after_forward.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Whether copies of forward values may serve the node: all of the backward but what the step returns.
inline bool is_backward(const Node& node) { return node.phase == Phase::backward && node.op != kReturn; }

class ForwardValues {
 public:
  // `graph` outlives this. REQUIRES: no node overwrites anything.
  ForwardValues(const Graph& graph, std::string_view reshard_after_forward);

  bool is_optional(std::size_t node) const { return optional_[node]; }
  std::int32_t block(std::size_t node) const { return blocks_[node]; }
  // The node that makes the storage which `value` lives in; -1 for inputs.
  std::int32_t producer(ValueId value) const { return producer_[static_cast<std::size_t>(value)]; }
  // The forward nodes of a block that make storages, other than gathered parameters, in order.
  const std::vector<std::size_t>& producers_of(std::size_t block) const { return of_block_[block]; }
  // Bytes of the storages that a node makes.
  std::int64_t bytes(std::size_t node) const;
  // For each node whether a backward node reads a storage that it makes.
  std::vector<bool> producers_read_by_backward() const;

  // The decision for each node, views included, if every optional node is computed again unless `keep` says
  // otherwise.
  std::vector<bool> recompute_all_but(const std::vector<bool>& keep) const;

 private:
  bool stays_inside(std::size_t node) const;

  const Graph& graph_;
  std::vector<std::int32_t> blocks_, parameters_, producer_;
  std::vector<bool> gathered_again_;  // for each node
  std::vector<bool>
      leaves_;  // for each node: somebody outside of the block's forward and the backward reads it
  std::vector<bool> optional_;
  std::vector<std::vector<std::size_t>> of_block_;
};

// What a decision comes to.
struct RecomputePlan {
  std::vector<bool> again;    // for each node: the backward really computes it again
  std::vector<ValueId> kept;  // storages made in a block, gathered parameters aside, that the backward reads
  std::int64_t kept_bytes = 0;
};
RecomputePlan plan_recompute(const Graph& graph, const std::vector<bool>& recompute);

}  // namespace rondo::ir

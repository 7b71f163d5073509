// The maker and the readers of each value of a graph, by the order of nodes at construction. Linear
// in the graph. Invalid once nodes have moved. Values that are added later have no maker and no
// readers.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

class DefUse {
 public:
  explicit DefUse(const Graph& graph);

  // Returns the node that makes the value, or kNoNode for an input and for kNoValue.
  NodeIndex maker(ValueId id) const { return knows(id) ? makers_[id] : kNoNode; }

  // Returns the readers in the order of the nodes. A node that reads the value twice appears twice.
  // The return node is a reader too.
  std::span<const NodeIndex> readers(ValueId id) const {
    if (!knows(id)) return {};
    return std::span(readers_).subspan(first_reader_[id], first_reader_[id + 1] - first_reader_[id]);
  }
  NodeIndex last_reader(ValueId id) const { return readers(id).empty() ? kNoNode : readers(id).back(); }
  // Returns the reader if there is exactly one, else kNoNode.
  NodeIndex only_reader(ValueId id) const { return readers(id).size() == 1 ? readers(id).front() : kNoNode; }

 private:
  bool knows(ValueId id) const { return static_cast<std::size_t>(id) < makers_.size(); }

  IdMap<NodeIndex> makers_;
  // By value, concatenated: the readers of value i are [first_reader_[i], first_reader_[i + 1]).
  std::vector<NodeIndex> readers_;
  IdMap<std::size_t> first_reader_;
};

// Returns, by node, whether it acts, or a living node reads one of its results.
IdMap<bool> living_nodes(const Graph& graph, const std::function<bool(const Node&)>& acts);

}  // namespace rondo::ir

// Who makes and who reads each value of a graph, as its nodes stood when this was built: linear in the graph,
// and not to be asked once nodes have moved. Values that were added since have neither maker nor readers.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

class DefUse {
 public:
  explicit DefUse(const Graph& graph);

  // The node that makes the value; kNoNode for an input, and for kNoValue.
  NodeIndex maker(ValueId id) const { return knows(id) ? makers_[id] : kNoNode; }

  // In the order of the nodes; one that reads the value twice is there twice, and the return node reads like
  // any other.
  std::span<const NodeIndex> readers(ValueId id) const {
    if (!knows(id)) return {};
    return std::span(readers_).subspan(first_reader_[id], first_reader_[id + 1] - first_reader_[id]);
  }
  NodeIndex last_reader(ValueId id) const { return readers(id).empty() ? kNoNode : readers(id).back(); }
  // kNoNode also where there are several.
  NodeIndex only_reader(ValueId id) const { return readers(id).size() == 1 ? readers(id).front() : kNoNode; }

 private:
  bool knows(ValueId id) const { return static_cast<std::size_t>(id) < makers_.size(); }

  IdMap<NodeIndex> makers_;
  // Of all values one after the other: those of value i begin at first_reader_[i] and end where those of i +
  // 1 begin.
  std::vector<NodeIndex> readers_;
  IdMap<std::size_t> first_reader_;
};

// Of each node: whether it acts, or one reads its results that does or is read so in turn.
IdMap<bool> living_nodes(const Graph& graph, const std::function<bool(const Node&)>& acts);

}  // namespace rondo::ir

// Replaces groups of nodes by single nodes; shared by the fuse_* passes. A pass queries makers and
// readers of values, takes the nodes of a match, and inserts their replacement. finish() rewrites
// the graph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/notes.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// True for a sum (aten.add.Tensor, alpha 1) of `a` and `b`, in either order.
bool is_sum(const Node& node, ValueId a, ValueId b);
// Returns the operand of a sum other than `known`, or kNoValue where `known` is no operand.
ValueId other_operand(const Node& node, ValueId known);
// True where the node only converts its operand to `dtype`.
bool is_cast(const Node& node, DType dtype);

class Fusion {
 public:
  // `pass` is the origin of new nodes. `graph` outlives this object, and nothing else changes it.
  // REQUIRES: no node overwrites anything.
  Fusion(Graph& graph, std::string_view pass);

  const Graph& graph() const { return graph_; }
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  ValueId result(NodeIndex i) const { return node(i).results[0]; }

  // Returns the node that makes `id`, or kNoNode for inputs; with `op`, also kNoNode for
  // another op.
  NodeIndex maker(ValueId id) const { return def_use_.maker(id); }
  NodeIndex maker(ValueId id, std::string_view op) const;
  // Returns the readers in node order; one that reads `id` twice appears twice.
  std::span<const NodeIndex> readers(ValueId id) const { return def_use_.readers(id); }
  // Returns the reader if there is exactly one, or else kNoNode.
  NodeIndex only_reader(ValueId id) const { return def_use_.only_reader(id); }

  // Takes nodes out of the graph. Returns false and takes nothing if one was taken before, if
  // another node reads a value that they make, except for `results`, or if they make one of
  // `operands`, the operands of the new nodes.
  bool take(const std::vector<NodeIndex>& nodes, const std::vector<ValueId>& results,
            const std::vector<ValueId>& operands);

  // Inserts a node before node `before`, with its phase and module.
  std::vector<ValueId> insert(NodeIndex before, std::string op, std::vector<Argument> args,
                              std::vector<TensorType> types);
  // Makes readers of `old` read `by`, which must be new.
  void replace(ValueId old, ValueId by) { replacement_[old] = by; }

  // Counts a fused pattern, for the notes.
  void count(const std::string& pattern) { ++fused_[pattern]; }
  Notes finish();

 private:
  Graph& graph_;
  std::string_view pass_;
  DefUse def_use_;
  IdMap<bool> taken_;
  IdMap<std::vector<Node>> inserted_;  // before each node
  IdMap<ValueId> replacement_;
  std::map<std::string, int> fused_;
};

}  // namespace rondo::ir

// Replaces groups of nodes by single ones: what the fuse_* passes share. A pass asks who makes and who reads
// a value, takes the nodes of a match, says what stands in their place, and finish() writes the graph.
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

// Whether the node is the sum (aten.add.Tensor, alpha 1) of these two, in either order.
bool is_sum(const Node& node, ValueId a, ValueId b);
// The operand of a sum besides `known`, kNoValue if `known` is none.
ValueId other_operand(const Node& node, ValueId known);
// Whether the node converts its operand to `dtype` and does nothing else.
bool is_cast(const Node& node, DType dtype);

class Fusion {
 public:
  // `pass` becomes the origin of new nodes. REQUIRES: no node overwrites anything; `graph` outlives this and
  // is not changed by others.
  Fusion(Graph& graph, std::string_view pass);

  const Graph& graph() const { return graph_; }
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  ValueId result(NodeIndex i) const { return node(i).results[0]; }

  // The node that makes `id`, kNoNode for inputs; with `op`, only if it is of that op.
  NodeIndex maker(ValueId id) const { return def_use_.maker(id); }
  NodeIndex maker(ValueId id, std::string_view op) const;
  // In the order of the nodes; one that reads `id` twice is there twice.
  std::span<const NodeIndex> readers(ValueId id) const { return def_use_.readers(id); }
  // The reader if there is one only, else kNoNode.
  NodeIndex only_reader(ValueId id) const { return def_use_.only_reader(id); }

  // Takes the nodes out, if none of them was taken before, nobody else reads what they make, `results` aside,
  // and they make none of `operands`, which the new nodes will read.
  bool take(const std::vector<NodeIndex>& nodes, const std::vector<ValueId>& results,
            const std::vector<ValueId>& operands);

  // A new node above node `before`, with that node's phase and module.
  std::vector<ValueId> insert(NodeIndex before, std::string op, std::vector<Argument> args,
                              std::vector<TensorType> types);
  // Readers of `old` read `by`, which must be new.
  void replace(ValueId old, ValueId by) { replacement_[old] = by; }

  // Counts a match for the notes.
  void count(const std::string& what) { ++fused_[what]; }
  Notes finish();

 private:
  Graph& graph_;
  std::string_view pass_;
  DefUse def_use_;
  IdMap<bool> taken_;
  IdMap<std::vector<Node>> inserted_;  // above each node
  IdMap<ValueId> replacement_;
  std::map<std::string, int> fused_;
};

}  // namespace rondo::ir

// Value numbering: nodes that compute the same, op and arguments bit for bit, become one.
#pragma once

#include <cstddef>
#include <functional>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Of op and arguments.
std::size_t hash_node(const Node& node);
// Op, arguments and result types; not module, phase or origin. 0.0 and -0.0 are different, and a nan is equal
// to itself.
bool equal_nodes(const Graph& graph, const Node& a, const Node& b);

// For each value whether its storage is overwritten or becomes the new content of an input: it needs one of
// its own, so its node is never merged with an equal one.
IdMap<bool> need_own_storage(const Graph& graph);

// Readers of a node read the first equal one instead, and the node goes, if both are `mergeable`, need no
// storage of their own, and are `alike` in what equal_nodes does not compare: an equivalence, as equality is.
// Both are asked about nodes as they stand in `graph`.
void merge_equal_nodes(Graph& graph, const std::function<bool(NodeIndex)>& mergeable,
                       const std::function<bool(NodeIndex, NodeIndex)>& alike);

}  // namespace rondo::ir

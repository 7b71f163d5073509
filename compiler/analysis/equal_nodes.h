// Value numbering: merges nodes that compute the same, with op and arguments equal bit for bit.
#pragma once

#include <cstddef>
#include <functional>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Hashes op and arguments.
std::size_t hash_node(const Node& node);
// Compares op, arguments and result types, but not module, phase or origin. 0.0 and -0.0 differ,
// and a nan equals itself.
bool equal_nodes(const Graph& graph, const Node& a, const Node& b);

// Returns for each value whether its storage is overwritten or becomes the new content of an input.
// It then needs its own storage, so its node is never merged with an equal one.
IdMap<bool> need_own_storage(const Graph& graph);

// Removes a node where an equal earlier one exists, and lets its readers read the first equal one.
// Both must be `mergeable`, must need no storage of their own, and must have the `same_context`, an
// equivalence over what equal_nodes does not compare. Both callbacks take indices into `graph`.
void merge_equal_nodes(Graph& graph, const std::function<bool(NodeIndex)>& mergeable,
                       const std::function<bool(NodeIndex, NodeIndex)>& same_context);

}  // namespace rondo::ir

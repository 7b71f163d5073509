// When two nodes compute the same: op and arguments bit for bit, and the types of the results.
#pragma once

#include <cstddef>
#include <vector>

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

}  // namespace rondo::ir

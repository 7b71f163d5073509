// When two nodes compute the same: op and arguments bit for bit, and the types of the results.
#pragma once

#include <cstddef>

#include "compiler/ir.h"

namespace rondo::ir {

// Of op and arguments.
std::size_t hash_node(const Node& node);
// Op, arguments and result types; not module, phase or origin. 0.0 and -0.0 are different, and a nan is equal
// to itself.
bool equal_nodes(const Graph& graph, const Node& a, const Node& b);

}  // namespace rondo::ir

// Makes mistakes of dividing a step over ranks in a graph, one at a time: every kind at every place
// where it is possible. A mutant is a complete graph, valid except for its types of sharding.
#pragma once

#include <functional>
#include <string>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// `kind`: "a sum over ranks is left out". `place` describes the node of the mistake.
using TakeMutant =
    std::function<void(const std::string& kind, const std::string& place, const Graph& mutant)>;

// REQUIRES: the graph has a mesh.
void for_each_mutant(const Graph& graph, const TakeMutant& take);

}  // namespace rondo::ir

// Mistakes that people make when they divide a step over ranks, put into a graph one at a time: every kind at
// every place where it can be made. A mutant is a whole graph, valid but for what ranks hold.
#pragma once

#include <functional>
#include <string>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// `kind`: "a sum over ranks is left out". `place`: the node that it was made at, described.
using TakeMutant =
    std::function<void(const std::string& kind, const std::string& place, const Graph& mutant)>;

// REQUIRES: the graph has a mesh.
void for_each_mutant(const Graph& graph, const TakeMutant& take);

}  // namespace rondo::ir

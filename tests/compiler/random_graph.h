// Random valid graphs for property tests and fuzzers, and a run of a graph on symbols instead of numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/ir.h"

namespace rondo::ir {

// A valid graph of about `nodes` nodes of real ops with full arguments and true types, so that it can be
// executed: views, copies, pointwise ops, products, collectives with late waits, random ops, in-place ops, a
// fused optimizer, duplicated and dead nodes, all three phases. The same seed gives the same graph.
Graph random_graph(std::uint64_t seed, int nodes);

// What each output is, as a hash of the expression that it stands for. Storages are modelled: a write changes
// what every view of that storage reads, and a collective reads its operand as late as its wait. So two
// graphs agree here only if they compute the same, whatever they do in place, and views are equal if they
// cover the same elements.
std::map<std::string, std::uint64_t> symbolic_run(const Graph& graph);

}  // namespace rondo::ir

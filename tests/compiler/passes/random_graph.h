// Random valid graphs for property tests and fuzzers, and a run of a graph on symbols instead of
// numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/passes/pipeline.h"

namespace rondo::ir {

// Returns a valid graph of about `nodes` nodes of real ops with full arguments and correct types,
// so that it can be executed: views, copies, chains of casts, pointwise ops, products, collectives
// with late waits, random ops, in-place ops, a fused optimizer, duplicated and dead nodes, dead
// collectives, all three phases, three blocks, and sharded parameters that are gathered in forward
// and backward, and their gradients reduced, by nodes of the parameter's name. Graphs of even seeds
// overwrite nothing. The same seed gives the same graph.
Graph random_graph(std::uint64_t seed, int nodes);

// Returns the pass after the passes that give its needs.
std::vector<const PassInfo*> with_prerequisites(const PassInfo& pass);

// Returns a hash of the expression of each output. Storages are modelled: a write changes the reads
// of every view of that storage, and a collective reads its operand at its wait. So two graphs
// agree only if they compute the same, with any in-place ops. Views are equal if they cover the
// same elements, and casts change a value only where they round.
std::map<std::string, std::uint64_t> symbolic_run(const Graph& graph);

}  // namespace rondo::ir

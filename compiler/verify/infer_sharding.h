// The types of sharding of all values of a graph, from those of its inputs: what makes a missing, doubled or
// misplaced collective an error before a step runs. See Note [Types of sharding] in compiler/ir/sharding.h.
//
// Proven, where nothing is refused: each new parameter, state and buffer lies as the old one did; results of
// a step are alike on all ranks; what is summed over ranks is a summand there, once; no product or sum mixes
// what ranks hold in different ways. Not proven: the order of rows and of what a flat buffer holds, factors
// that are not a number of ranks, and values. Linear in the graph.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A rule of the verifier: nothing to do for a graph without a mesh. Throws VerifyError.
void shardings_agree(const Graph& graph);

// By value, as an input of another graph may say it; none where a value has unlike parts. REQUIRES: a graph
// that is not refused.
IdMap<std::optional<Sharding>> value_shardings(const Graph& graph);

// By value, "dp 0, tp sum": where it is not replicated on an axis. Of a graph that is refused, up to the node
// that is, with the reason at its results.
IdMap<std::string> sharding_comments(const Graph& graph);

}  // namespace rondo::ir

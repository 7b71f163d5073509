// Infers the types of sharding of all values of a graph from those of its inputs. So a missing,
// doubled or misplaced collective is an error before a step runs. See Note [Types of sharding] in
// compiler/ir/sharding.h.
//
// A graph that is not refused has these properties. Each new parameter, state and buffer is sharded
// like the old one. Results of a step are equal on all ranks. A sum over ranks has partial sums as
// operands, once. No product or sum mixes operands that are sharded differently.
// Not proven: the order of rows and of the parts of a flat buffer, factors that are not a number of
// ranks, and values. Linear in the graph.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A rule of the verifier. Accepts every graph without a mesh. Throws VerifyError.
void shardings_agree(const Graph& graph);

// Returns, by value, its sharding as an input of another graph has it, or nothing for a buffer of
// unlike parts. REQUIRES: shardings_agree accepts the graph.
IdMap<std::optional<Sharding>> value_shardings(const Graph& graph);

// Returns, by value, "dp 0, tp sum": its placements on the axes where it is not replicated. For a
// refused graph, ends at the refused node and has the reason at its results.
IdMap<std::string> sharding_comments(const Graph& graph);

}  // namespace rondo::ir

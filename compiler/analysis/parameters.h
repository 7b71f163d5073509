// Queries about a graph's parameters: which nodes gather or reduce one, and which buckets
// they form.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// Returns for each node the index of the parameter input whose name is the node's module, or -1.
// Such a node gathers the parameter in any phase (cast, all-gather, wait, views). Or it reduces its
// gradient in the backward, or the sum over microbatches in the update (cast, padding,
// reduce-scatter, all-reduce, wait). See parallel/simple_fsdp.h.
IdMap<std::int32_t> parameters_of_nodes(const Graph& graph);

// True where a node may be part of a gather of a parameter without effects on the rest of the step:
// it computes, or is one end of a collective.
bool may_gather(const Node& node);

// Returns for each value whether it is a parameter, or computed from parameters alone by nodes that
// `may(index)` admits.
IdMap<bool> values_of_parameters(const Graph& graph, const std::function<bool(std::size_t)>& may);

// The same for values before a gather: copies of a parameter on this rank, and maxima over ranks.
IdMap<bool> values_before_gathers(const Graph& graph);

// Returns for each input whether its gathered copy lives from the forward into the backward, under
// CompileOptions::reshard_after_forward. `never` keeps all, `always` keeps none, and `all_but_last`
// keeps the bucket that the forward gathers last.
IdMap<bool> kept_gathered(const Graph& graph, ReshardAfterForward reshard);

}  // namespace rondo::ir

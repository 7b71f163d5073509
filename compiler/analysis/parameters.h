// What a graph says about its parameters: which nodes gather or reduce one, and which buckets they form.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// For each node the index of the parameter input whose name is the node's module, -1 for the others. Such a
// node gathers the parameter (cast, all-gather, wait, views), in whichever phase, or reduces its gradient
// (cast, padding, reduce-scatter, all-reduce, wait), in the backward, or what microbatches added up of it in
// the update: parallel/simple_fsdp.h.
IdMap<std::int32_t> parameters_of_nodes(const Graph& graph);

// Whether a node may be a part of gathering a parameter, of which nothing else in the step takes note: it
// computes, or is one end of a collective.
bool may_gather(const Node& node);

// For each value whether it is a parameter, or computed from parameters alone by nodes that `may(index)`
// admits.
IdMap<bool> values_of_parameters(const Graph& graph, const std::function<bool(std::size_t)>& may);

// For each input whether its gathered copy lives from the forward into the backward, under
// CompileOptions::reshard_after_forward: `never` keeps all, `always` none, `all_but_last` those of the bucket
// that the forward gathers last.
IdMap<bool> kept_gathered(const Graph& graph, ReshardAfterForward reshard);

}  // namespace rondo::ir

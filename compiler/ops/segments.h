// What of a graph a device can record once and replay without the host: its segments, the longest runs of
// nodes between those that the host takes part in (Effect::host_sync). Plain C++, linear in the graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Whether the device has nothing to do for a node: its results are views, made when memory is laid out.
bool only_views(const Graph& graph, const Node& node);

// Nodes at which the host reads what the device computed: where the graph is cut. Empty: the whole graph is
// one segment.
std::vector<NodeIndex> host_syncs(const Graph& graph);

// The runs of nodes between the host reads; one that only makes views is no work, and no segment. The return
// node belongs to the run before it: it stands for the copies of what updates the state.
std::vector<Segment> find_segments(const Graph& graph);

// "1 segment", "3 segments, cut at rondo.all_to_all_tokens in layers.1.moe (forward), ... and 7 more".
std::string describe_segments(const Graph& graph);
// Of one node: "aten.mm.default in layers.0.attention (forward)".
std::string describe_place(const Node& node);

// Throws VerifyError (verify.h) where the graph's marked segments cannot be recorded: they must ascend, hold
// no host read, and hold the start of each wait; only host reads and views may stand outside. A graph without
// marks passes.
void check_segments(const Graph& graph);

}  // namespace rondo::ir

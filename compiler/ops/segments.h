// The segments of a graph, which a device can record once and replay without the host: the longest
// runs of nodes between those in which the host takes part (Effect::host_sync). Plain C++, linear
// in the graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Returns true if the device has no work for a node: its results are views, which are created when
// memory is planned.
bool only_views(const Graph& graph, const Node& node);

// Returns the nodes at which the host reads values of the device. The graph is cut there. Empty:
// the whole graph is one segment.
std::vector<NodeIndex> host_syncs(const Graph& graph);

// Returns the runs of nodes between host reads, without runs of views only. The return node belongs
// to the run before it, since it copies updates of the state.
std::vector<Segment> find_segments(const Graph& graph);

// Returns the largest number of groups whose collectives are in one of the graph's segments.
std::size_t most_groups_of_a_segment(const Graph& graph);

// Returns "1 segment" or "3 segments, cut at rondo.all_to_all_tokens in layers.1.moe (forward), ...
// and 7 more".
std::string describe_segments(const Graph& graph);
// Returns "aten.mm.default in layers.0.attention (forward)" for a node.
std::string describe_place(const Node& node);

// Throws VerifyError (compiler/ir/verify_error.h) if the marked segments of a graph cannot be
// recorded. They must ascend, must not contain a host read, and must contain the start of each wait
// in them. Only host reads and views may be outside. A graph without marks passes.
void check_segments(const Graph& graph);

}  // namespace rondo::ir

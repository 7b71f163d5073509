// Reorders the nodes of a graph.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A requested place for a node: the index of a node in the old order, and a side of it (0: its own
// place, negative: before it, positive: after it).
struct Place {
  std::int32_t index = 0;
  std::int32_t side = 0;
  auto operator<=>(const Place&) const = default;
};

// Sorts the nodes by `places`, one each; equal places keep their order. A node that would come
// before one of its operands is placed right after the last of them instead. Random ops and host
// reads keep their order, and the return node stays last. O(n log n). REQUIRES: no node overwrites
// anything; the operands form no cycle.
void reorder(Graph& graph, const IdMap<Place>& places);

// Adds `nodes` at their places in `node_places` and sorts. `places` are those of the existing
// nodes, including the return node. Among equal places, the added nodes come last.
void add_and_reorder(Graph& graph, IdMap<Place> places, std::vector<Node> nodes,
                     const std::vector<Place>& node_places);

// The same, after it removes the nodes whose flag is false. `places` and `keep`: one each of the
// existing nodes.
void keep_add_and_reorder(Graph& graph, const std::vector<bool>& keep, const IdMap<Place>& places,
                          std::vector<Node> nodes, const std::vector<Place>& node_places);

// Returns the places of the current order.
IdMap<Place> present_places(const Graph& graph);

}  // namespace rondo::ir

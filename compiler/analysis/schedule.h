// Another order for the nodes of a graph.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Where a node wants to stand: the index of a node in the old order, and a place beside it (0: its own,
// negative: before it, positive: after it).
struct Place {
  std::int32_t index = 0;
  std::int32_t beside = 0;
  auto operator<=>(const Place&) const = default;
};

// Sorts the nodes by `places` (one each; equal places keep their order), but puts no node above the
// definition of what it reads: it then stands right behind the last of these. Random ops and host reads keep
// their order. O(n log n). The return node stays last. REQUIRES: no node overwrites anything; the operands
// form no cycle.
void reorder(Graph& graph, const IdMap<Place>& places);

// Adds `made`, each wanting to stand at its place in `made_places`, and sorts; `places` are those of the
// nodes that are there, the return node's included. Of equal places the added come last.
void add_and_reorder(Graph& graph, IdMap<Place> places, std::vector<Node> made,
                     const std::vector<Place>& made_places);

// The places of the present order.
IdMap<Place> present_places(const Graph& graph);

}  // namespace rondo::ir

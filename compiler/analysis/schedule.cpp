// Kahn's topological sort with a priority queue. Among the nodes with all operands placed, the one
// with the smallest requested place goes next, ties by old index, so the sort is stable. Random
// ops and host reads form a chain of extra edges, since the drawn numbers and the exchanges
// between ranks depend on their order. The return node is appended last. A count that falls short
// means a cycle.
#include "compiler/analysis/schedule.h"

#include <iterator>
#include <queue>

#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "support/error.h"

namespace rondo::ir {

IdMap<Place> present_places(const Graph& graph) {
  IdMap<Place> places(graph.nodes.size());
  for (NodeIndex i = 0; i < graph.node_count(); ++i) places[i].index = i;
  return places;
}

void reorder(Graph& graph, const IdMap<Place>& places) {
  const NodeIndex count = graph.node_count();
  const DefUse def_use(graph);
  IdMap<std::vector<NodeIndex>> readers(graph.nodes.size());
  IdMap<std::int32_t> missing(graph.nodes.size(), 0);  // operands that are not placed yet
  for (NodeIndex i = 0; i < count; ++i)
    for_each_operand(graph.nodes[i], [&](ValueId id) {
      const NodeIndex maker = def_use.maker(id);
      if (maker == kNoNode) return;
      readers[maker].push_back(i);
      ++missing[i];
    });

  NodeIndex last_draw = kNoNode;
  for (NodeIndex i = 0; i < count; ++i) {
    const Effect effect = facts(graph.nodes[i].op).effect;
    if (effect != Effect::random && effect != Effect::host_sync) continue;
    if (last_draw != kNoNode) {
      readers[last_draw].push_back(i);
      ++missing[i];
    }
    last_draw = i;
  }

  using Entry = std::pair<Place, NodeIndex>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto offer = [&](NodeIndex i) {
    if (i != count - 1) ready.emplace(places[i], i);
  };
  for (NodeIndex i = 0; i < count; ++i)
    if (missing[i] == 0) offer(i);

  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  while (!ready.empty()) {
    const NodeIndex i = ready.top().second;
    ready.pop();
    nodes.push_back(std::move(graph.nodes[i]));
    for (NodeIndex reader : readers[i])
      if (--missing[reader] == 0) offer(reader);
  }
  RONDO_ASSERT(nodes.size() + 1 == graph.nodes.size(),
               "the operands of the graph " + graph.name + " form a cycle");
  nodes.push_back(std::move(graph.nodes.back()));
  graph.nodes = std::move(nodes);
}

void add_and_reorder(Graph& graph, IdMap<Place> places, std::vector<Node> nodes,
                     const std::vector<Place>& node_places) {
  graph.nodes.insert(graph.nodes.end() - 1, std::make_move_iterator(nodes.begin()),
                     std::make_move_iterator(nodes.end()));
  places.insert(places.end() - 1, node_places.begin(), node_places.end());
  reorder(graph, places);
}

void keep_add_and_reorder(Graph& graph, const std::vector<bool>& keep, const IdMap<Place>& places,
                          std::vector<Node> nodes, const std::vector<Place>& node_places) {
  IdMap<Place> kept;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) kept.push_back(places[i]);
  keep_nodes(graph, keep);
  add_and_reorder(graph, std::move(kept), std::move(nodes), node_places);
}

}  // namespace rondo::ir

#include "compiler/analysis/schedule.h"

#include <iterator>
#include <queue>

#include "compiler/ir/op_facts.h"
#include "support/error.h"

namespace rondo::ir {

std::vector<Place> present_places(const Graph& graph) {
  std::vector<Place> places(graph.nodes.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i].index = static_cast<std::int32_t>(i);
  return places;
}

void reorder(Graph& graph, const std::vector<Place>& places) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::int32_t> definition(graph.values.size(), -1);
  for (std::size_t i = 0; i < count; ++i)
    for (ValueId id : graph.nodes[i].results)
      definition[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(i);

  std::vector<std::vector<std::int32_t>> readers(count);
  std::vector<std::int32_t> missing(count, 0);  // operands that are not placed yet
  for (std::size_t i = 0; i < count; ++i)
    for_each_operand(graph.nodes[i], [&](ValueId id) {
      const std::int32_t made = definition[static_cast<std::size_t>(id)];
      if (made < 0) return;
      readers[static_cast<std::size_t>(made)].push_back(static_cast<std::int32_t>(i));
      ++missing[i];
    });

  std::int32_t last_draw = -1;
  for (std::size_t i = 0; i < count; ++i) {
    const Effect effect = facts(graph.nodes[i].op).effect;
    if (effect != Effect::random && effect != Effect::host_sync) continue;
    if (last_draw >= 0) {
      readers[static_cast<std::size_t>(last_draw)].push_back(static_cast<std::int32_t>(i));
      ++missing[i];
    }
    last_draw = static_cast<std::int32_t>(i);
  }

  using Entry = std::pair<Place, std::int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto last = static_cast<std::int32_t>(count) - 1;
  const auto offer = [&](std::int32_t i) {
    if (i != last) ready.emplace(places[static_cast<std::size_t>(i)], i);
  };
  for (std::size_t i = 0; i < count; ++i)
    if (missing[i] == 0) offer(static_cast<std::int32_t>(i));

  std::vector<Node> nodes;
  nodes.reserve(count);
  while (!ready.empty()) {
    const auto i = static_cast<std::size_t>(ready.top().second);
    ready.pop();
    nodes.push_back(std::move(graph.nodes[i]));
    for (std::int32_t reader : readers[i])
      if (--missing[static_cast<std::size_t>(reader)] == 0) offer(reader);
  }
  RONDO_ASSERT(nodes.size() + 1 == count, "the operands of the graph " + graph.name + " form a cycle");
  nodes.push_back(std::move(graph.nodes.back()));
  graph.nodes = std::move(nodes);
}

void add_and_reorder(Graph& graph, std::vector<Place> places, std::vector<Node> made,
                     const std::vector<Place>& made_places) {
  graph.nodes.insert(graph.nodes.end() - 1, std::make_move_iterator(made.begin()),
                     std::make_move_iterator(made.end()));
  places.insert(places.end() - 1, made_places.begin(), made_places.end());
  reorder(graph, places);
}

std::vector<std::int32_t> waits_of_starts(const Graph& graph) {
  const std::vector<std::int32_t> definition = defining_nodes(graph);
  std::vector<std::int32_t> waits(graph.nodes.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (facts(graph.nodes[i].op).effect != Effect::wait) continue;
    const ValueId awaited = std::get<Use>(graph.nodes[i].args[0]).value;
    const std::int32_t start = definition[static_cast<std::size_t>(awaited)];
    if (start >= 0) waits[static_cast<std::size_t>(start)] = static_cast<std::int32_t>(i);
  }
  return waits;
}

}  // namespace rondo::ir

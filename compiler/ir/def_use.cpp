#include "compiler/ir/def_use.h"

#include <algorithm>
#include <numeric>

namespace rondo::ir {

DefUse::DefUse(const Graph& graph)
    : makers_(graph.values.size(), kNoNode), first_reader_(graph.values.size() + 1, 0) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    for (ValueId id : graph.nodes[i].results) makers_[id] = i;
    for_each_operand(graph.nodes[i], [&](ValueId id) { ++first_reader_[id + 1]; });
  }
  std::partial_sum(first_reader_.begin(), first_reader_.end(), first_reader_.begin());
  readers_.resize(first_reader_.back());
  IdMap<std::size_t> next = first_reader_;
  for (NodeIndex i = 0; i < graph.node_count(); ++i)
    for_each_operand(graph.nodes[i], [&](ValueId id) { readers_[next[id]++] = i; });
}

// Goes backwards: dead nodes do not count as readers, so one sweep finds whole dead chains.
IdMap<bool> living_nodes(const Graph& graph, const std::function<bool(const Node&)>& acts) {
  IdMap<bool> read(graph.values.size(), false), lives(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    lives[i] = acts(node) ||
               std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return read[id]; });
    if (lives[i]) for_each_operand(node, [&](ValueId id) { read[id] = true; });
  }
  return lives;
}

}  // namespace rondo::ir

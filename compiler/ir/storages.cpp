// storage_roots() takes one sweep, since values are defined before their use.
#include "compiler/ir/storages.h"

#include <algorithm>
#include <numeric>

namespace rondo::ir {

ValueId storage_root(const Graph& graph, ValueId id) {
  for (;;) {
    const Value& value = graph.value(id);
    const ValueId next = value.views != kNoValue ? value.views : value.writes;
    if (next == kNoValue) return id;
    id = next;
  }
}

IdMap<ValueId> storage_roots(const Graph& graph) {
  IdMap<ValueId> roots(graph.values.size());
  std::iota(roots.begin(), roots.end(), 0);
  for (const Node& node : graph.nodes) {
    for (ValueId result : node.results) {
      const Value& value = graph.value(result);
      const ValueId source = value.views != kNoValue ? value.views : value.writes;
      if (source != kNoValue) roots[result] = roots[source];
    }
  }
  return roots;
}

bool overwrites(const Graph& graph) {
  // Values without a maker may still be marked.
  const auto is_write = [](const Value& value) { return value.writes != kNoValue; };
  if (std::none_of(graph.values.begin(), graph.values.end(), is_write)) return false;
  for (const Node& node : graph.nodes)
    for (ValueId id : node.results)
      if (graph.value(id).writes != kNoValue) return true;
  return false;
}

IdMap<bool> overwritten_storages(const Graph& graph, const IdMap<ValueId>& roots) {
  IdMap<bool> overwritten(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (ValueId id : node.results)
      if (graph.value(id).writes != kNoValue) overwritten[roots[id]] = true;
  return overwritten;
}

}  // namespace rondo::ir

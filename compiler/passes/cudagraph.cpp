// Marks the segments that a device records, and brings waits in front of the cuts between them.
//
// What is under way when a recording ends cannot be waited for in the next one, so at each host read whatever
// was started is waited for first. That costs overlap there and no bit: a result may always be awaited
// earlier.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

// Places each wait whose start stands above a cut that it stands below right before that cut. Returns how
// many.
std::size_t wait_before_cuts(Graph& graph) {
  const std::vector<NodeIndex> cuts = host_syncs(graph);
  const DefUse def_use(graph);
  std::vector<std::pair<NodeIndex, Node>> moved;  // the cut, and the wait that goes before it
  std::vector<bool> stays(graph.nodes.size(), true);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    Node& node = graph.nodes[i];
    if (facts(node.op).effect != Effect::wait) continue;
    const NodeIndex start = def_use.maker(std::get<Use>(node.args.at(0)).value);
    const auto cut = std::upper_bound(cuts.begin(), cuts.end(), start);
    if (cut == cuts.end() || *cut > i) continue;
    // The order of the phases holds: what stands above a forward node is of the forward.
    node.phase = std::min(node.phase, graph.nodes[*cut].phase);
    stays[i] = false;
    moved.emplace_back(*cut, std::move(node));
  }
  std::stable_sort(moved.begin(), moved.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  auto next = moved.begin();
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    for (; next != moved.end() && next->first == i; ++next) nodes.push_back(std::move(next->second));
    if (stays[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
  return moved.size();
}

}  // namespace

Notes cudagraph(Graph& graph, const CompileOptions&) {
  const std::size_t moved = wait_before_cuts(graph);
  graph.segments = find_segments(graph);
  if (moved == 0) return {};
  return {fmt::format("{} waits come before a cut: what one segment starts another cannot wait for", moved)};
}

}  // namespace rondo::ir

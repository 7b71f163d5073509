// Marks the segments that a device records, and moves waits before the cuts between them.
//
// A recording cannot wait for work that an earlier recording started. So each host read is preceded
// by the waits for all work in progress. That costs overlap, but changes no bits, since a wait may
// always come earlier.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

// Moves each wait with its start before a cut and itself after it to just before the cut. Returns
// the number of moves.
std::size_t wait_before_cuts(Graph& graph) {
  const std::vector<NodeIndex> cuts = host_syncs(graph);
  const DefUse def_use(graph);
  std::vector<std::pair<NodeIndex, Node>> moved;  // the cut, and the wait before it
  std::vector<bool> stays(graph.nodes.size(), true);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    Node& node = graph.nodes[i];
    if (facts(node.op).effect != Effect::wait) continue;
    const NodeIndex start = def_use.maker(std::get<Use>(node.args.at(0)).value);
    const auto cut = std::upper_bound(cuts.begin(), cuts.end(), start);
    if (cut == cuts.end() || *cut > i) continue;
    // Keeps the order of phases: a node before a forward node is in the forward, unless its start
    // is in the backward of another microbatch.
    node.phase = std::max(graph.nodes[start].phase, std::min(node.phase, graph.nodes[*cut].phase));
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
  return {
      fmt::format("{} waits moved before a cut: a segment cannot wait for work of another segment", moved)};
}

}  // namespace rondo::ir

// Segments are the gaps between host reads, so one scan over the cuts finds them. A gap with only
// views has nothing to record. The check works the other way round: it maps each node to its marked
// segment and compares. A wait must be in the segment of its start, because a recording cannot wait
// for work that another recording started.
#include "compiler/ops/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/def_use.h"
#include "compiler/ir/verify_error.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

constexpr std::size_t kNamedCuts = 8;

bool is_host_sync(const Node& node) { return facts(node.op).effect == Effect::host_sync; }

// Returns, by node, the index of its segment, or -1. Throws VerifyError if segments do not ascend.
IdMap<std::int32_t> segments_of_nodes(const Graph& graph) {
  IdMap<std::int32_t> segment_of(graph.nodes.size(), -1);
  std::int32_t last_end = 0;
  for (std::size_t s = 0; s < graph.segments.size(); ++s) {
    const Segment& segment = graph.segments[s];
    if (segment.begin < last_end || segment.end <= segment.begin || segment.end > graph.node_count())
      throw VerifyError{-1, fmt::format("segment {} is nodes {} to {} of {}, after a segment that ends at {}",
                                        s, segment.begin, segment.end, graph.node_count(), last_end)};
    std::fill(segment_of.begin() + segment.begin, segment_of.begin() + segment.end,
              static_cast<std::int32_t>(s));
    last_end = segment.end;
  }
  return segment_of;
}

}  // namespace

bool only_views(const Graph& graph, const Node& node) {
  if (facts(node.op).effect != Effect::none || node.results.empty()) return false;
  return std::all_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).views != kNoValue; });
}

std::vector<NodeIndex> host_syncs(const Graph& graph) {
  std::vector<NodeIndex> syncs;
  for (NodeIndex i = 0; i < graph.node_count(); ++i)
    if (is_host_sync(graph.nodes[i])) syncs.push_back(i);
  return syncs;
}

std::vector<Segment> find_segments(const Graph& graph) {
  std::vector<Segment> segments;
  NodeIndex begin = 0;
  const auto end_at = [&](NodeIndex end) {
    const bool works =
        std::any_of(graph.nodes.begin() + begin, graph.nodes.begin() + end,
                    [&](const Node& node) { return node.op != kReturn && !only_views(graph, node); });
    if (works) segments.push_back({begin, end});
  };
  for (const NodeIndex cut : host_syncs(graph)) {
    end_at(cut);
    begin = cut + 1;
  }
  end_at(graph.node_count());
  return segments;
}

std::string describe_place(const Node& node) {
  return fmt::format("{}{}{} ({})", node.op, node.module.empty() ? "" : " in ", node.module,
                     phase_name(node.phase));
}

std::size_t most_groups_of_a_segment(const Graph& graph) {
  std::size_t most = 0;
  for (const Segment& segment : graph.segments) {
    std::set<std::string> groups;
    for (NodeIndex i = segment.begin; i < segment.end; ++i)
      if (const auto collective = collective_of(graph.nodes[i])) groups.emplace(collective->group);
    most = std::max(most, groups.size());
  }
  return most;
}

std::string describe_segments(const Graph& graph) {
  const std::size_t count = find_segments(graph).size();
  const std::vector<NodeIndex> cuts = host_syncs(graph);
  std::string text = fmt::format("{} segment{}", count, count == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(cuts.size(), kNamedCuts); ++i)
    text += (i == 0 ? ", cut at " : ", ") + describe_place(graph.nodes[cuts[i]]);
  if (cuts.size() > kNamedCuts) text += fmt::format(" and {} more", cuts.size() - kNamedCuts);
  return text;
}

void check_segments(const Graph& graph) {
  if (graph.segments.empty()) return;
  const IdMap<std::int32_t> segment_of = segments_of_nodes(graph);
  const DefUse def_use(graph);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const bool inside = segment_of[i] >= 0;
    if (inside && is_host_sync(node)) throw VerifyError{i, "reads on the host inside of a segment"};
    if (!inside && !is_host_sync(node) && node.op != kReturn && !only_views(graph, node))
      throw VerifyError{i, "is outside of all segments"};
    if (facts(node.op).effect != Effect::wait) continue;
    for_each_operand(node, [&](ValueId id) {
      const NodeIndex start = def_use.maker(id);
      if (start >= 0 && segment_of[start] != segment_of[i])
        throw VerifyError{i, fmt::format("waits for %{}, which another segment started", id)};
    });
  }
}

}  // namespace rondo::ir

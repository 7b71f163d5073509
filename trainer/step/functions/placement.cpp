// Computes placements. Axes are described as spans of rank numbers: a stride and an end. The dense
// axes and the axes of the experts divide the same ranks; InputSharding cuts both at all of their
// borders, and has no axes if one border does not divide the next.
#include "trainer/step/functions/placement.h"

#include <algorithm>
#include <string>

namespace rondo {
namespace {

// An axis: its ranks differ by `stride`, 2 * `stride`, ... below `end`.
struct RankSpan {
  Axis axis;
  std::int64_t stride, end;
};
using Spans = std::vector<RankSpan>;

// Returns the spans of the axes, innermost first, without axes of one rank.
Spans spans_of(const Mesh& mesh, std::initializer_list<Axis> axes) {
  Spans spans;
  std::int64_t stride = 1;
  for (const Axis axis : axes) {
    const std::int64_t end = stride * mesh.degree(axis);
    if (end > stride) spans.push_back({axis, stride, end});
    stride = end;
  }
  return spans;
}

const RankSpan* span_with(const Spans& spans, std::int64_t stride) {
  const auto match = std::find_if(spans.begin(), spans.end(),
                                  [&](const RankSpan& s) { return s.stride <= stride && stride < s.end; });
  return match == spans.end() ? nullptr : &*match;
}

}  // namespace

Partition partition_of(const ParameterRule& rule) {
  switch (rule.style) {
    case ParallelStyle::replicated:
      break;
    case ParallelStyle::colwise:
      return {kCutShardAxes, Axis::tp, 0};
    case ParallelStyle::rowwise:
      return {kCutShardAxes, Axis::tp, 1};
    case ParallelStyle::experts:
      if (rule.expert_cut.dim == 0) return {kWholeExpertShardAxes, Axis::ep, 0};
      return {kCutExpertShardAxes, Axis::etp, rule.expert_cut.dim, Axis::ep, rule.expert_cut.blocks};
  }
  return {};
}

ShardPlacement shard_placement_of(const ParameterRule& rule, const Mesh& mesh, std::int64_t rank) {
  const auto [shards, axis, dim, of_rows, blocks] = partition_of(rule);
  Cut cut;
  if (axis) cut = {dim, mesh.degree(*axis), mesh.coordinate(rank, *axis), blocks};
  RowPart rows;
  if (of_rows) rows = {mesh.degree(*of_rows), mesh.coordinate(rank, *of_rows)};
  return {FlatShard(rule.sizes, cut, mesh.degree(shards), mesh.coordinate(rank, shards), rows),
          mesh.group(shards)};
}

MatrixPieces matrix_pieces_of(const ParameterRule& rule, const ShardPlacement& placement, const Mesh& mesh) {
  const bool of_experts = rule.style == ParallelStyle::experts;
  const Axes holders = of_experts ? kWholeExpertShardAxes : kWholeShardAxes;
  return matrix_pieces(placement.shard, mesh.group(holders),
                       of_experts ? rule.expert_cut.dim : partition_of(rule).dim, rule.expert_cut.blocks);
}

InputSharding::InputSharding(const Mesh& mesh) : ranks_(mesh) {
  const Spans dense = spans_of(mesh, {Axis::tp, Axis::cp, Axis::dp_shard, Axis::dp_replicate});
  const Spans experts =
      mesh.degree(kExpertTokenAxes) > 1 ? spans_of(mesh, {Axis::etp, Axis::ep, Axis::efsdp}) : Spans();
  std::vector<std::int64_t> borders = {1, mesh.degree(kStageAxes)};
  for (const Spans& spans : {dense, experts})
    for (const RankSpan& span : spans) borders.insert(borders.end(), {span.stride, span.end});
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  for (std::size_t i = 0; i + 1 < borders.size(); ++i)
    if (borders[i + 1] % borders[i] != 0) return;
  for (std::size_t i = borders.size() - 1; i-- > 0;) {  // outermost first
    const std::int64_t stride = borders[i], end = borders[i + 1];
    const RankSpan* const of_dense = span_with(dense, stride);
    const RankSpan* const of_experts = span_with(experts, stride);
    if (of_dense == nullptr) continue;
    Axes parts(of_dense->axis);
    std::string name(axis_name(of_dense->axis));
    if (of_experts != nullptr) parts.add(of_experts->axis);
    if (of_experts != nullptr && (of_dense->stride != stride || of_dense->end != end))
      name += "_" + std::string(axis_name(of_experts->axis));
    mesh_.axes.push_back({std::move(name), end / stride});
    parts_of_.push_back(parts);
  }
  if (experts.empty())
    for (Axes& parts : parts_of_)
      if (!parts.has(Axis::dp_replicate)) parts.add(Axis::efsdp);
  for (const Axes& group : kGroups) {
    const AxisGroup named = mesh.group(group);
    const bool known = std::any_of(mesh_.groups.begin(), mesh_.groups.end(),
                                   [&](const ir::MeshGroup& other) { return other.name == named.name; });
    if (named.ranks == 1 || known) continue;
    ir::MeshGroup members{named.name, {}};
    for (std::size_t a = 0; a < parts_of_.size(); ++a)
      if (parts_of_[a].meets(group)) members.axes.push_back(static_cast<std::int32_t>(a));
    mesh_.groups.push_back(members);
    members.name += kGatherGroupSuffix;
    mesh_.groups.push_back(std::move(members));
  }
}

void InputSharding::mark(ir::Sharding& sharding, const Axes& axes, ir::Placement placement) const {
  sharding.axes.resize(mesh_.axes.size());
  for (std::size_t a = 0; a < parts_of_.size(); ++a)
    if (parts_of_[a].meets(axes)) sharding.axes[a] = placement;
}

ir::Sharding InputSharding::over(const Axes& axes, ir::Placement placement) const {
  ir::Sharding sharding;
  mark(sharding, axes, placement);
  return sharding;
}

ir::Sharding InputSharding::of_parameter(const ParameterRule& rule) const {
  const Partition partition = partition_of(rule);
  ir::Sharding sharding = over(partition.shards, ir::sharded(0));
  if (partition.rows) mark(sharding, *partition.rows, ir::sharded(0));
  if (!partition.cut) return sharding;
  mark(sharding, *partition.cut, partition.dim == 0 ? ir::sharded(0) : ir::inner(partition.dim));
  const bool has_inner = std::any_of(sharding.axes.begin(), sharding.axes.end(), [](const ir::Placement& p) {
    return p.kind == ir::Placement::Kind::inner;
  });
  if (has_inner) sharding.unflattened = shard_placement_of(rule, ranks_, 0).shard.part_sizes();
  return sharding;
}

ir::Sharding InputSharding::of_gradient_sum(const ParameterRule& rule, bool is_whole) const {
  ir::Sharding sharding = of_parameter(rule);
  if (is_whole) mark(sharding, partition_of(rule).shards, ir::kPartialSum);
  mark(sharding, Axis::dp_replicate, ir::kPartialSum);
  return sharding;
}

}  // namespace rondo

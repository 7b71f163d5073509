#include "trainer/step/placement.h"

namespace rondo {

Placement placement_of(const ParameterRule& rule, const Mesh& mesh, std::int64_t rank) {
  Axes shards = kWholeShardAxes;
  Cut cut;
  const auto cut_over = [&](int dim, Axis axis) {
    cut = {dim, mesh.degree(axis), mesh.coordinate(rank, axis)};
  };
  switch (rule.style) {
    case ParallelStyle::replicated:
      break;
    case ParallelStyle::colwise:
      cut_over(0, Axis::tp);
      shards = kCutShardAxes;
      break;
    case ParallelStyle::rowwise:
      cut_over(1, Axis::tp);
      shards = kCutShardAxes;
      break;
    case ParallelStyle::experts:
      cut_over(0, Axis::ep);
      shards = Axis::efsdp;
      break;
  }
  return {FlatShard(rule.sizes, cut, mesh.degree(shards), mesh.coordinate(rank, shards)), mesh.group(shards)};
}

}  // namespace rondo

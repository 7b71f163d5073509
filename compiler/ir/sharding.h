// The type of sharding of a tensor: a placement for each axis of the mesh.
//
// Note [Types of sharding]. On one axis a tensor is
//   replicated   equal on all ranks
//   zero         all zeros; compatible with every other placement
//   sharded      divided along a dimension. The type does not say which rank has which rows, so
//                permuted tokens are sharded, and so are the shards of parallel/flat_shard.h (along
//                dim 0 of the flattened tensor)
//   inner        divided along a dimension of `unflattened` other than the first, then flattened
//   partial_sum  the tensor is the sum over the ranks
//   partial_max  the tensor is the maximum over the ranks
//   local        computed from what this rank alone has: ids of its part of a vocabulary, rows of
//                its experts, counts of its rows. It says nothing of the values of other ranks
// In addition, `repeated` marks a sum over ranks of equal values, which is too large by the number
// of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::ir {

struct MeshAxis {
  std::string name;
  std::int64_t ranks = 1;  // at least 2
  bool operator==(const MeshAxis&) const = default;
};

// A process group that collectives name, and the axes in which its ranks differ.
struct MeshGroup {
  std::string name;
  std::vector<std::int32_t> axes;  // indices
  bool operator==(const MeshGroup&) const = default;
};

// Empty on one rank, and where the mesh is unknown: then nothing is checked.
struct MeshAxes {
  static constexpr std::size_t kMax = 6;
  std::vector<MeshAxis> axes;  // at most kMax
  std::vector<MeshGroup> groups;
  bool operator==(const MeshAxes&) const = default;
};

struct Placement {
  enum class Kind : std::uint8_t { replicated, zero, sharded, inner, partial_sum, partial_max, local };
  Kind kind = Kind::replicated;
  std::int8_t dim = 0;  // of sharded and inner
  bool repeated = false;
  bool operator==(const Placement&) const = default;
};
constexpr Placement kReplicated{};
constexpr Placement sharded(int dim) { return {Placement::Kind::sharded, static_cast<std::int8_t>(dim)}; }
constexpr Placement inner(int dim) { return {Placement::Kind::inner, static_cast<std::int8_t>(dim)}; }
constexpr Placement kPartialSum{Placement::Kind::partial_sum};
constexpr Placement kPartialMax{Placement::Kind::partial_max};
constexpr Placement kLocal{Placement::Kind::local};
constexpr Placement kZero{Placement::Kind::zero};

// The type of sharding of an input.
struct Sharding {
  std::vector<Placement> axes;            // by axis; empty: replicated on all axes
  std::vector<std::int64_t> unflattened;  // the sizes before the flattening, if an axis is `inner`
  bool operator==(const Sharding&) const = default;
};

}  // namespace rondo::ir

// How the ranks of a run hold a tensor: its type of sharding, a placement for each axis of the mesh.
//
// Note [Types of sharding]. On one axis a tensor is
//   replicated   alike on all ranks
//   zero         nothing but zeros; goes with everything
//   sharded      cut along a dimension; which rank has which rows is not said, so permuted tokens are
//                sharded, and so is what parallel/flat_shard.h cuts (along dim 0 of the flattened tensor)
//   inner        cut along a dimension other than the first of `unflattened`, and flattened since
//   partial_sum  a summand: the tensor is the sum over the ranks
//   partial_max  likewise the maximum
//   local        what this rank makes of what it alone has: ids of its part of a vocabulary, rows of its
//                experts, counts of its rows. A rank says nothing of what others have
// and, besides, `repeated` where a sum over ranks counted what all of them had: that many times too much.
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

// Ranks that a collective names, and the axes that they differ in.
struct MeshGroup {
  std::string name;
  std::vector<std::int32_t> axes;  // indices
  bool operator==(const MeshGroup&) const = default;
};

// Empty on one rank, and where nobody says: then nothing is checked.
struct MeshAxes {
  static constexpr std::size_t kMost = 6;
  std::vector<MeshAxis> axes;  // at most kMost
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

// Of an input.
struct Sharding {
  std::vector<Placement> axes;            // by axis; empty: replicated on all
  std::vector<std::int64_t> unflattened;  // where one is `inner`: the sizes before the tensor was flattened
  bool operator==(const Sharding&) const = default;
};

}  // namespace rondo::ir

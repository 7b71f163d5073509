// How the ranks of a run are divided: a grid with one axis for each kind of parallelism. Arithmetic alone: no LibTorch,
// no connections. Parts of it are handed to parallel/groups.h, which makes them process groups.
//
// Rank numbers run through the grid row by row: the last axis varies fastest. So the ranks of one tensor-parallel group
// are neighbours, then those of one shard group, and a node holds whole shard groups where it has room for them;
// replicas of a shard stand farther apart.
//
//   8 ranks, dp_replicate 2, dp_shard 4:   replica 0 is 0 1 2 3    "dp" has all of them
//                                          replica 1 is 4 5 6 7    "dp_replicate" of rank 5 is 1 5
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Outermost first.
enum class Axis : std::uint8_t { pp, dp_replicate, dp_shard, cp, tp };
inline constexpr std::size_t kAxes = 5;
std::string_view axis_name(Axis axis);  // "dp_shard": as torchtitan calls it

// One axis, or the union of several.
class Axes {
 public:
  constexpr Axes(Axis axis) : Axes({axis}) {}
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) has_[static_cast<std::size_t>(axis)] = true;
  }
  constexpr bool has(Axis axis) const { return has_[static_cast<std::size_t>(axis)]; }

 private:
  std::array<bool, kAxes> has_{};
};

// The ranks that read data of their own: every copy of the model times every shard of it.
inline constexpr Axes kDataAxes = {Axis::dp_replicate, Axis::dp_shard};
// The name of their group.
inline const std::string kDataParallelGroup = "dp";

// By Axis. -1, for one of them: the ranks that the others leave.
using Degrees = std::array<std::int64_t, kAxes>;

// A group of ranks as collectives know it: each rank is in one group of that name.
struct AxisGroup {
  std::string name;
  std::int64_t ranks = 1;   // with one there is no process group, and nothing to do
  std::int64_t stride = 1;  // from one of its ranks to the next
};

class Mesh {
 public:
  Mesh() : Mesh(1, {1, 1, 1, 1, 1}) {}
  // Throws Error(config), with the arithmetic, where the degrees do not make `world_size` ranks.
  Mesh(std::int64_t world_size, Degrees degrees);

  std::int64_t world_size() const { return world_size_; }
  std::int64_t degree(Axes axes) const;
  // The place of a rank in its group, from 0 on.
  std::int64_t coordinate(std::int64_t rank, Axes axes) const;
  // The ranks of its group, ascending: the place in this list is the coordinate.
  std::vector<std::int64_t> members(std::int64_t rank, Axes axes) const;
  // Axes that hold the same ranks have the same group: where either data axis has one rank, the other one's is "dp".
  AxisGroup group(Axes axes) const;

 private:
  std::int64_t world_size_;
  Degrees degrees_;
  Degrees strides_;  // from one rank of an axis to the next
};

}  // namespace rondo

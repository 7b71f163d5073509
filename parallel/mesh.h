// How the ranks of a run are divided: a grid with one axis for each kind of parallelism. Arithmetic alone: no
// LibTorch, no connections. Parts of it are handed to parallel/groups/groups.h, which makes them process
// groups.
//
// Rank numbers run through the grid row by row: the last axis varies fastest. So the ranks of one
// tensor-parallel group are neighbours, then those of one shard group, and a node holds whole shard groups
// where it has room for them; replicas of a shard stand farther apart, and stages of a pipeline farthest: the
// ranks of a stage are a block of neighbours.
//
//   8 ranks, dp_replicate 2, dp_shard 4:   replica 0 is 0 1 2 3    "dp" has all of them
//                                          replica 1 is 4 5 6 7    "dp_replicate" of rank 5 is 1 5
//
// Experts divide the ranks of a replica in a way of their own: efsdp * ep * etp = dp_shard * cp * tp. Ranks
// of one ep group have different experts, those of one efsdp group shards of the same; etp is tp where that
// cuts experts, too, and then ep does not include it.
//
//   8 ranks, dp_shard 4, tp 2, ep 4:   "tp" of rank 5 is 4 5,  "dp_shard" is 1 3 5 7,  "ep" is 4 5 6 7,
//   "efsdp" is 1 5
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
enum class Axis : std::uint8_t { pp, dp_replicate, dp_shard, cp, tp, efsdp, ep, etp };
inline constexpr std::size_t kAxes = 8;
inline constexpr std::size_t kDenseAxes = 5;  // all but the experts' own
std::string_view axis_name(Axis axis);        // "dp_shard": as torchtitan calls it

// One axis, or the union of several: of dp_shard, cp and tp, or of efsdp, ep and etp, but not of both kinds.
class Axes {
 public:
  constexpr Axes(Axis axis) : Axes({axis}) {}
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) add(axis);
  }
  constexpr void add(Axis axis) { has_[static_cast<std::size_t>(axis)] = true; }
  constexpr bool has(Axis axis) const { return has_[static_cast<std::size_t>(axis)]; }
  constexpr bool meets(const Axes& others) const {
    for (std::size_t i = 0; i < kAxes; ++i)
      if (has_[i] && others.has_[i]) return true;
    return false;
  }

 private:
  std::array<bool, kAxes> has_{};
};

// The ranks that read rows of their own: every copy of the model times every shard of it.
inline constexpr Axes kDataAxes = {Axis::dp_replicate, Axis::dp_shard};
// Those that read tokens of their own: a row's are divided among the ranks of its context.
inline constexpr Axes kTokenAxes = {Axis::dp_replicate, Axis::dp_shard, Axis::cp};
inline constexpr Axes kAllAxes = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};
// The ranks with the same stages of a pipeline. They run the same functions.
inline constexpr Axes kStageAxes = {Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};
// The ranks that share one copy of a parameter: those that have the same part of it, and where it is not cut
// all that have tokens of their own (parallel/sharding.h).
inline constexpr Axes kCutShardAxes = {Axis::dp_shard, Axis::cp};
inline constexpr Axes kWholeShardAxes = {Axis::dp_shard, Axis::cp, Axis::tp};
// The same of experts: of a part of each, and of what of them is not cut.
inline constexpr Axes kCutExpertShardAxes = Axis::efsdp;
inline constexpr Axes kWholeExpertShardAxes = {Axis::efsdp, Axis::etp};
// The ranks whose tokens meet in an expert (parallel/expert_parallel.h).
inline constexpr Axes kExpertTokenAxes = {Axis::ep, Axis::etp};
// Those that collectives use, each a group where it has more than one rank.
inline constexpr std::array<Axes, 12> kGroups = {
    kAllAxes, kTokenAxes,         kWholeShardAxes, kCutShardAxes, kCutExpertShardAxes, kWholeExpertShardAxes,
    Axis::ep, Axis::dp_replicate, Axis::cp,        Axis::tp,      Axis::etp,           kExpertTokenAxes};
// The name of the group of kDataAxes.
inline const std::string kDataParallelGroup = "dp";

// By Axis, without the experts' own. -1, for one of them: the ranks that the others leave.
using Degrees = std::array<std::int64_t, kDenseAxes>;

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
  // `expert_degree`: of Axis::ep; `expert_tensor_degree`: of Axis::etp, 1 or that of Axis::tp.
  Mesh(std::int64_t world_size, Degrees degrees, std::int64_t expert_degree = 1,
       std::int64_t expert_tensor_degree = 1);

  std::int64_t world_size() const { return world_size_; }
  std::int64_t degree(Axes axes) const;
  // The place of a rank in its group, from 0 on.
  std::int64_t coordinate(std::int64_t rank, Axes axes) const;
  // The ranks of its group, ascending: the place in this list is the coordinate.
  std::vector<std::int64_t> members(std::int64_t rank, Axes axes) const;
  // Axes that hold the same ranks have the same group: where either data axis has one rank, the other one's
  // is "dp". "ep" alone is always a group of its own: what experts exchange does not stand behind what else
  // these ranks send.
  AxisGroup group(Axes axes) const;
  // "dp_replicate 2 x dp_shard 4 x tp 2, experts efsdp 2 x ep 4": what has more than one rank; "" on one
  // rank.
  std::string text() const;

 private:
  std::int64_t world_size_;
  std::array<std::int64_t, kAxes> degrees_{};
  std::array<std::int64_t, kAxes> strides_{};  // from one rank of an axis to the next
};

// What a second group of the same ranks is called beside the first, for gathers beside reductions.
inline const std::string kGatherGroupSuffix = "_gather";

}  // namespace rondo

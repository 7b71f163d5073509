// The ranks of a run as a grid with one axis for each kind of parallelism. Arithmetic alone: no
// LibTorch and no connections. parallel/groups/groups.h makes process groups of its subsets.
//
// Rank numbers run through the grid row by row: the last axis varies fastest. The ranks of a
// tensor-parallel group are consecutive, then those of a shard group; a node holds whole shard
// groups if they fit. Replicas of a shard are farther apart. The ranks of a pipeline stage are one
// block of consecutive ranks.
//
//   8 ranks, dp_replicate 2, dp_shard 4:   replica 0 is 0 1 2 3    "dp" has all of them
//                                          replica 1 is 4 5 6 7    "dp_replicate" of rank 5 is 1 5
//
// Experts divide the ranks of a replica differently: efsdp * ep * etp = dp_shard * cp * tp. Ranks
// of an ep group have different experts; ranks of an efsdp group have shards of the same experts.
// etp is 1, or tp if tensor parallelism cuts experts; ep then does not include tp.
//
//   8 ranks, dp_shard 4, tp 2, ep 4, of rank 5:   "tp" is 4 5        "dp_shard" is 1 3 5 7
//                                                 "ep" is 4 5 6 7    "efsdp" is 1 5
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// The outermost axis first.
enum class Axis : std::uint8_t { pp, dp_replicate, dp_shard, cp, tp, efsdp, ep, etp };
inline constexpr std::size_t kAxes = 8;
inline constexpr std::size_t kDenseAxes = 5;  // all but efsdp, ep and etp
std::string_view axis_name(Axis axis);        // "dp_shard": torchtitan's name
// Returns the key in [parallelism], "data_parallel_shard_degree"; "" for efsdp.
std::string_view degree_key(Axis axis);

// One axis, or a union of several: of dp_shard, cp and tp, or of efsdp, ep and etp. A union has no
// axes of both kinds.
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

// Ranks with different rows of the batch: every replica times every shard.
inline constexpr Axes kDataAxes = {Axis::dp_replicate, Axis::dp_shard};
// Ranks with different tokens of the batch: context parallelism divides the tokens of a row.
inline constexpr Axes kTokenAxes = {Axis::dp_replicate, Axis::dp_shard, Axis::cp};
inline constexpr Axes kAllAxes = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};
// Ranks with the same pipeline stages. They run the same functions.
inline constexpr Axes kStageAxes = {Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};
// Ranks that shard one copy of a parameter: of a cut parameter, the ranks with the same part; of
// any other, also the ranks of tp (parallel/rank_context.h).
inline constexpr Axes kCutShardAxes = {Axis::dp_shard, Axis::cp};
inline constexpr Axes kWholeShardAxes = {Axis::dp_shard, Axis::cp, Axis::tp};
// The same for the parameters of experts, with and without a cut over etp.
inline constexpr Axes kCutExpertShardAxes = Axis::efsdp;
inline constexpr Axes kWholeExpertShardAxes = {Axis::efsdp, Axis::etp};
// Ranks whose tokens one expert computes (parallel/expert_parallel.h).
inline constexpr Axes kExpertTokenAxes = {Axis::ep, Axis::etp};
// The groups of collectives. Each is a process group if it has more than one rank.
inline constexpr std::array<Axes, 12> kGroups = {
    kAllAxes, kTokenAxes,         kWholeShardAxes, kCutShardAxes, kCutExpertShardAxes, kWholeExpertShardAxes,
    Axis::ep, Axis::dp_replicate, Axis::cp,        Axis::tp,      Axis::etp,           kExpertTokenAxes};
// The name of the group of kDataAxes.
inline const std::string kDataParallelGroup = "dp";

// By Axis, for the dense axes. At most one may be -1: it is inferred from the number of ranks.
using Degrees = std::array<std::int64_t, kDenseAxes>;

// A group of ranks as collectives name it. Each rank is in one group of a name.
struct AxisGroup {
  std::string name;
  std::int64_t ranks = 1;   // 1: there is no process group
  std::int64_t stride = 1;  // difference of consecutive ranks on the innermost axis of the group
};

class Mesh {
 public:
  Mesh() : Mesh(1, {1, 1, 1, 1, 1}) {}
  // Throws Error(config) with the arithmetic if the product of the degrees is not `world_size`, or
  // if the degrees of the experts do not fit. `expert_degree`: of Axis::ep. `expert_tensor_degree`:
  // of Axis::etp, 1 or the degree of Axis::tp.
  Mesh(std::int64_t world_size, Degrees degrees, std::int64_t expert_degree = 1,
       std::int64_t expert_tensor_degree = 1);

  std::int64_t world_size() const { return world_size_; }
  std::int64_t degree(Axes axes) const;
  // Returns the index of a rank in its group.
  std::int64_t coordinate(std::int64_t rank, Axes axes) const;
  // Returns the ranks of its group in ascending order. The index in this list is the coordinate.
  std::vector<std::int64_t> members(std::int64_t rank, Axes axes) const;
  // Axes with the same ranks have the same group: if one of the data axes has one rank, the group
  // of the other one is "dp". "ep" alone is always a separate group, so that the exchange of tokens
  // does not wait for other collectives of the same ranks.
  AxisGroup group(Axes axes) const;
  // Returns the axes with more than one rank: "dp_replicate 2 x dp_shard 4 x tp 2, experts efsdp 2
  // x ep 4". Returns "" with one rank.
  std::string text() const;

 private:
  std::int64_t world_size_;
  std::array<std::int64_t, kAxes> degrees_{};
  std::array<std::int64_t, kAxes> strides_{};  // difference of consecutive ranks on an axis
};

// Suffix of the name of a second group of the same ranks, whose gathers overlap the first
// one's reductions.
inline const std::string kGatherGroupSuffix = "_gather";

}  // namespace rondo

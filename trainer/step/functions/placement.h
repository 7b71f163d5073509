// Which ranks hold what of a parameter, and of the other inputs of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/sharding.h"
#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"
#include "parallel/mesh.h"

namespace rondo {

// Which axes a parameter is divided over: its rows over `rows`, these by `cut` along `dim`, where so many
// `blocks` lie, and what that leaves, flattened, over `shards`.
struct Partition {
  Axes shards = kWholeShardAxes;
  std::optional<Axis> cut = std::nullopt;
  int dim = 0;
  std::optional<Axis> rows = std::nullopt;
  std::int64_t blocks = 1;
};
// Ranks that share a layer cut what the model's table says, ranks that share experts have some of them each,
// or a part of each; what is left is sharded over all ranks of the replica that compute with it.
Partition partition_of(const ParameterRule& rule);

struct Placement {
  FlatShard shard;
  AxisGroup shards{};  // the ranks that compute with the same part, which share one copy of it
};

Placement placement_of(const ParameterRule& rule, const Mesh& mesh, std::int64_t rank);

// How the ranks of a mesh hold the inputs of a step, in the compiler's words (compiler/ir/sharding.h).
//
// Stages of a pipeline hold other parameters and run other functions, so these are the ranks of one stage: a
// group of all ranks has the axes of the stage alone, and sums over stages are not typed.
//
// The experts divide a replica's ranks in a way of their own, so axes are split until each belongs to one
// dense axis and one of the experts': dp_shard 4 and tp 2 with ep 4 are "dp_shard_efsdp" 2, "dp_shard_ep" 2
// and "tp" 2. Where the degrees of both ways do not nest (tp 3 with ep 2) there are no such axes.
class InputSharding {
 public:
  explicit InputSharding(const Mesh& mesh);

  // Without axes on one rank, and where the degrees do not nest; with the groups that collectives name.
  const ir::MeshAxes& mesh() const { return mesh_; }
  // Whether types of sharding follow the layout of these ranks.
  bool follows_layout() const { return !mesh_.axes.empty() || ranks_.degree(kStageAxes) == 1; }
  // On these axes as told, replicated on the others.
  ir::Sharding over(const Axes& axes, ir::Placement placement) const;
  ir::Sharding of_parameter(const ParameterRule& rule) const;
  // A gradient whose sum over the replicas is still to be taken; a whole one that over the shards, too.
  ir::Sharding of_gradient_sum(const ParameterRule& rule, bool is_whole) const;

 private:
  void mark(ir::Sharding& sharding, const Axes& axes, ir::Placement placement) const;

  Mesh ranks_;
  ir::MeshAxes mesh_;
  std::vector<Axes> parts_of_;  // by axis of mesh_: the axes of the run that it is a part of
};

}  // namespace rondo

// Places parameters and the other inputs of a step on ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/sharding.h"
#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"
#include "parallel/matrix_pieces.h"
#include "parallel/mesh.h"

namespace rondo {

// The axes over which a parameter is divided: its rows over `rows`, each row part over `cut` along
// `dim` in `blocks` blocks, and the remaining part, flattened, over `shards`.
struct Partition {
  Axes shards = kWholeShardAxes;
  std::optional<Axis> cut = std::nullopt;
  int dim = 0;
  std::optional<Axis> rows = std::nullopt;
  std::int64_t blocks = 1;
};
// Returns the partition of a parameter. Tensor-parallel ranks cut it by its style in the model's
// table. Expert-parallel ranks hold some experts each, or a part of each expert. The remaining part
// is sharded over all ranks of the replica that compute with it.
Partition partition_of(const ParameterRule& rule);

struct ShardPlacement {
  FlatShard shard;
  AxisGroup shards{};  // the ranks that compute with the same part and share one copy of it
};

// Returns how the ranks hold the matrices of a parameter with this placement. REQUIRES:
// rule.is_hidden_matrix().
MatrixPieces matrix_pieces_of(const ParameterRule& rule, const ShardPlacement& placement, const Mesh& mesh);

ShardPlacement shard_placement_of(const ParameterRule& rule, const Mesh& mesh, std::int64_t rank);

// Types of sharding (compiler/ir/sharding.h) of the inputs of a step on a mesh.
//
// Stages of a pipeline hold other parameters and run other functions, so the mesh is that of one
// stage: a group of all ranks has only the axes of the stage, and sums over stages have no type.
//
// Experts divide the ranks of a replica differently, so axes are split until each belongs to one
// dense axis and one axis of the experts: dp_shard 4 and tp 2 with ep 4 are "dp_shard_efsdp" 2,
// "dp_shard_ep" 2 and "tp" 2. Where the degrees do not nest (tp 3 with ep 2) there are no such
// axes.
class InputSharding {
 public:
  explicit InputSharding(const Mesh& mesh);

  // Returns the axes with the groups that collectives name. Empty on one rank, and if the degrees
  // do not nest.
  const ir::MeshAxes& mesh() const { return mesh_; }
  // Returns whether types of sharding follow the layout of these ranks.
  bool follows_layout() const { return !mesh_.axes.empty() || ranks_.degree(kStageAxes) == 1; }
  // Returns the given placement on these axes, replicated on the others.
  ir::Sharding over(const Axes& axes, ir::Placement placement) const;
  ir::Sharding of_parameter(const ParameterRule& rule) const;
  // Returns the type of a sum of gradients that must still be reduced over the replicas and, if
  // `is_whole`, over the shards.
  ir::Sharding of_gradient_sum(const ParameterRule& rule, bool is_whole) const;

 private:
  void mark(ir::Sharding& sharding, const Axes& axes, ir::Placement placement) const;

  Mesh ranks_;
  ir::MeshAxes mesh_;
  std::vector<Axes> parts_of_;  // by axis of mesh_: the axes of the run that contain it
};

}  // namespace rondo

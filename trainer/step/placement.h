// Which ranks hold what of a parameter.
#pragma once

#include <cstdint>

#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"
#include "parallel/mesh.h"

namespace rondo {

struct Placement {
  FlatShard shard;
  AxisGroup shards{};  // the ranks that compute with the same part, which share one copy of it
};

// Ranks that share a layer cut what the model's table says, ranks that share experts have some of them each;
// what is left is sharded over all ranks of the replica that compute with it.
Placement placement_of(const ParameterRule& rule, const Mesh& mesh, std::int64_t rank);

}  // namespace rondo

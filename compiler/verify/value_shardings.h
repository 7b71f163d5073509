// The types of sharding of a graph's values during inference. In addition to a placement on each
// axis, a value has the sizes before it was flattened, and a buffer of unlike parts the type of
// each part.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

struct ShardingType {
  std::array<Placement, MeshAxes::kMax> on = {};
  std::int32_t unflattened = -1;  // index for ValueShardings::sizes if an axis is `inner`, or -1
  bool operator==(const ShardingType&) const = default;
};
// Returns the type of the flat tensor: `inner 0` becomes `sharded`, since a part along the first
// dimension is a part of the flat tensor.
ShardingType as_flat(ShardingType type);
// `length` elements of the last dimension; in a gathered buffer, of each rank's row.
struct BufferPart {
  std::int64_t length;
  ShardingType type;
};
using BufferParts = std::vector<BufferPart>;
// Returns the type of the whole buffer for a reader that does not split it, or nothing if the parts
// differ. Zeros are compatible with every type.
std::optional<ShardingType> common_type(const BufferParts& parts);

class ValueShardings {
 public:
  // All values replicated. `graph` outlives this.
  explicit ValueShardings(const Graph& graph);

  std::size_t axes() const { return placed_.size(); }
  const std::string& axis_name(std::size_t axis) const { return graph_.mesh.axes[axis].name; }
  const IdMap<Placement>& on_axis(std::size_t axis) const { return placed_[axis]; }
  ShardingType of(ValueId id) const;
  std::int32_t unflattened(ValueId id) const { return unflattened_[id]; }
  void set(ValueId id, const ShardingType& type);

  ShardingType type_of(const Sharding& sharding);
  const std::vector<std::int64_t>& sizes(std::int32_t number) const {
    return sizes_[static_cast<std::size_t>(number)];
  }
  // flatten() records the `sizes` before a flattening in an `inner` type. unflatten() restores the
  // type if a view has these sizes again, and leaves it flat otherwise. Both ignore dimensions of
  // one element unless ranks have parts of one.
  void flatten(const std::vector<std::int64_t>& sizes, ShardingType& type);
  void unflatten(const std::vector<std::int64_t>& sizes, ShardingType& type) const;

  // Returns nullptr if the value is not a buffer of unlike parts.
  const BufferParts* parts(ValueId id) const;
  // Sets one type if the parts are equal. Zeros remain separate parts, since a sum over ranks
  // leaves them zeros.
  void set(ValueId id, BufferParts parts);
  // Returns the parts of elements [begin, end) of the last dimension; empty outside of the buffer.
  BufferParts cut(ValueId buffer, std::int64_t begin, std::int64_t end) const;

  std::string text(ValueId id) const;  // "dp 0, tp sum"; "parts"
  // Without `all`, omits axes on which the type is replicated.
  std::string text(const ShardingType& type, bool all = true) const;

 private:
  std::int32_t number_of(const std::vector<std::int64_t>& sizes);

  const Graph& graph_;
  std::vector<IdMap<Placement>> placed_;  // by axis
  IdMap<std::int32_t> unflattened_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<BufferParts> buffers_;
  IdMap<std::int32_t> buffer_of_;  // index into buffers_, or -1
};

}  // namespace rondo::ir

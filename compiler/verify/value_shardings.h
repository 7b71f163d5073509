// The types of sharding of a graph's values while they are inferred.
//
// Beside the placement on each axis a value has what concerns all axes: the sizes it had before it was
// flattened, and, where a buffer holds unlike parts one behind the other, the type of each part.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

struct ShardingType {
  std::array<Placement, MeshAxes::kMost> on = {};
  std::int32_t unflattened = -1;  // where an axis is `inner`: ValueShardings::sizes; -1: none
  bool operator==(const ShardingType&) const = default;
};
// Flat, a part along the first of several dimensions is one of the whole: `inner 0` is `sharded`.
ShardingType as_flat(ShardingType type);
// Of the last dimension `length` elements; of a gathered buffer, of each rank's row.
struct BufferPart {
  std::int64_t length;
  ShardingType type;
};
using BufferParts = std::vector<BufferPart>;
// The type of all of it, for a reader that does not take it apart: zeros go with everything.
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
  // Of what is `inner`: it had `sizes`, and a view gives it `sizes` again. Dimensions of one element count
  // for neither, unless ranks have parts of one. Other sizes leave it flat.
  void flatten(const std::vector<std::int64_t>& sizes, ShardingType& type);
  void unflatten(const std::vector<std::int64_t>& sizes, ShardingType& type) const;

  // nullptr where the value is no buffer of unlike parts.
  const BufferParts* parts(ValueId id) const;
  // One type where the parts are alike. Zeros stay apart, since a sum over ranks leaves them zeros.
  void set(ValueId id, BufferParts parts);
  // Of elements [begin, end) of the last dimension; empty where the buffer has none.
  BufferParts cut(ValueId buffer, std::int64_t begin, std::int64_t end) const;

  std::string text(ValueId id) const;                                 // "dp 0, tp sum"; "parts"
  std::string text(const ShardingType& type, bool all = true) const;  // not all: where it is not replicated

 private:
  std::int32_t number_of(const std::vector<std::int64_t>& sizes);

  const Graph& graph_;
  std::vector<IdMap<Placement>> placed_;  // by axis
  IdMap<std::int32_t> unflattened_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<BufferParts> buffers_;
  IdMap<std::int32_t> buffer_of_;  // -1: no buffer of unlike parts
};

}  // namespace rondo::ir

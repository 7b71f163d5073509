// Placements are stored by axis, since rules of sharding work on one axis. Sizes before a
// flattening are numbered, so that types compare in constant time.
#include "compiler/verify/value_shardings.h"

#include <algorithm>
#include <optional>

#include "compiler/ops/placements.h"
#include "compiler/text/text.h"

namespace rondo::ir {

ValueShardings::ValueShardings(const Graph& graph) : graph_(graph) {
  placed_.assign(graph.mesh.axes.size(), IdMap<Placement>(graph.values.size()));
  unflattened_.assign(graph.values.size(), -1);
  buffer_of_.assign(graph.values.size(), -1);
}

ShardingType ValueShardings::of(ValueId id) const {
  ShardingType type{.on = {}, .unflattened = unflattened_[id]};
  for (std::size_t a = 0; a < axes(); ++a) type.on[a] = placed_[a][id];
  return type;
}

void ValueShardings::set(ValueId id, const ShardingType& type) {
  for (std::size_t a = 0; a < axes(); ++a) placed_[a][id] = type.on[a];
  unflattened_[id] = type.unflattened;
}

ShardingType ValueShardings::type_of(const Sharding& sharding) {
  ShardingType type;
  std::copy_n(sharding.axes.begin(), std::min(sharding.axes.size(), axes()), type.on.begin());
  if (!sharding.unflattened.empty()) flatten(sharding.unflattened, type);
  return type;
}

namespace {

using Sizes = std::vector<std::int64_t>;

bool is_inner(const Placement& p) { return p.kind == Placement::Kind::inner; }
bool is_zero(const Placement& p) { return p.kind == Placement::Kind::zero; }

Sizes at_dims(const Sizes& sizes, const std::vector<std::size_t>& dims) {
  Sizes some;
  for (const std::size_t d : dims) some.push_back(sizes[d]);
  return some;
}

}  // namespace

void ValueShardings::flatten(const Sizes& sizes, ShardingType& type) {
  const std::vector<std::size_t> dims = counted_dims(sizes);
  const auto place = [&](const Placement& p) {
    return std::find(dims.begin(), dims.end(), static_cast<std::size_t>(p.dim)) - dims.begin();
  };
  const bool all_count = std::all_of(type.on.begin(), type.on.end(), [&](const Placement& p) {
    return !is_inner(p) || place(p) < std::ssize(dims);
  });
  type.unflattened = number_of(all_count ? at_dims(sizes, dims) : sizes);
  for (Placement& p : type.on)
    if (all_count && is_inner(p)) p.dim = static_cast<std::int8_t>(place(p));
}

void ValueShardings::unflatten(const Sizes& sizes, ShardingType& type) const {
  const Sizes& before = this->sizes(type.unflattened);
  const std::vector<std::size_t> dims = counted_dims(sizes);
  const bool exact = sizes == before;
  const bool all_count = std::all_of(type.on.begin(), type.on.end(), [&](const Placement& p) {
    return !is_inner(p) || static_cast<std::size_t>(p.dim) < dims.size();
  });
  if (sizes.size() < 2 || (!exact && (!all_count || at_dims(sizes, dims) != before))) return;
  for (Placement& p : type.on)
    if (is_inner(p))
      p = {Placement::Kind::sharded,
           exact ? p.dim : static_cast<std::int8_t>(dims[static_cast<std::size_t>(p.dim)]), p.repeated};
  type.unflattened = -1;
}

ShardingType as_flat(ShardingType type) {
  bool has_inner = false;
  for (Placement& p : type.on) {
    if (is_inner(p) && p.dim == 0) p.kind = Placement::Kind::sharded;
    has_inner = has_inner || is_inner(p);
  }
  if (!has_inner) type.unflattened = -1;
  return type;
}

std::int32_t ValueShardings::number_of(const std::vector<std::int64_t>& sizes) {
  const auto at = std::find(sizes_.begin(), sizes_.end(), sizes) - sizes_.begin();
  if (at == std::ssize(sizes_)) sizes_.push_back(sizes);
  return static_cast<std::int32_t>(at);
}

const BufferParts* ValueShardings::parts(ValueId id) const {
  return buffer_of_[id] < 0 ? nullptr : &buffers_[static_cast<std::size_t>(buffer_of_[id])];
}

std::optional<ShardingType> common_type(const BufferParts& parts) {
  ShardingType common = parts.front().type;
  for (const BufferPart& part : parts) {
    for (std::size_t a = 0; a < common.on.size(); ++a) {
      const Placement& p = part.type.on[a];
      if (is_zero(common.on[a])) common.on[a] = p;
      if (!is_zero(p) && p != common.on[a]) return std::nullopt;
    }
    common.unflattened = std::max(common.unflattened, part.type.unflattened);
    if (part.type.unflattened >= 0 && part.type.unflattened != common.unflattened) return std::nullopt;
  }
  return common;
}

void ValueShardings::set(ValueId id, BufferParts parts) {
  const bool one_type = std::all_of(parts.begin(), parts.end(),
                                    [&](const BufferPart& part) { return part.type == parts.front().type; });
  if (one_type) return set(id, parts.front().type);
  buffer_of_[id] = static_cast<std::int32_t>(buffers_.size());
  buffers_.push_back(std::move(parts));
}

BufferParts ValueShardings::cut(ValueId buffer, std::int64_t begin, std::int64_t end) const {
  BufferParts pieces;
  std::int64_t at = 0;
  for (const BufferPart& part : *parts(buffer)) {
    const std::int64_t from = std::max(begin, at), to = std::min(end, at + part.length);
    if (from < to) pieces.push_back({to - from, part.type});
    at += part.length;
  }
  return pieces;
}

std::string ValueShardings::text(ValueId id) const {
  return parts(id) != nullptr ? "parts" : text(of(id), /*all=*/false);
}

std::string ValueShardings::text(const ShardingType& type, bool all) const {
  std::string text;
  for (std::size_t a = 0; a < axes(); ++a)
    if (all || type.on[a] != kReplicated)
      text += (text.empty() ? "" : ", ") + axis_name(a) + " " + print(type.on[a]);
  return text;
}

}  // namespace rondo::ir

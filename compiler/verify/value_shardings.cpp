#include "compiler/verify/value_shardings.h"

#include <algorithm>
#include <optional>

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
  if (!sharding.unflattened.empty()) type.unflattened = number_of(sharding.unflattened);
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

namespace {

bool is_zero(const Placement& p) { return p.kind == Placement::Kind::zero; }

}  // namespace

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
  const bool alike = std::all_of(parts.begin(), parts.end(),
                                 [&](const BufferPart& part) { return part.type == parts.front().type; });
  if (alike) return set(id, parts.front().type);
  buffer_of_[id] = static_cast<std::int32_t>(buffers_.size());
  buffers_.push_back(std::move(parts));
}

BufferParts ValueShardings::cut(ValueId buffer, std::int64_t begin, std::int64_t end) const {
  BufferParts found;
  std::int64_t at = 0;
  for (const BufferPart& part : *parts(buffer)) {
    const std::int64_t from = std::max(begin, at), to = std::min(end, at + part.length);
    if (from < to) found.push_back({to - from, part.type});
    at += part.length;
  }
  return found;
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

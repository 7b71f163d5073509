// Values are indices into one dense list and are never renumbered: keep_nodes() removes nodes but
// not their values, so that tables indexed by value stay valid in a pass. The block of a module is
// looked up by its dotted prefixes, once for each distinct module.
#include "compiler/ir/ir.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "support/error.h"

namespace rondo::ir {
namespace {

struct DTypeRow {
  std::string_view name;
  std::int64_t bytes;
};

// In the order of the enumerators.
constexpr std::array<DTypeRow, 12> kDTypes = {{{"f64", 8},
                                               {"f32", 4},
                                               {"bf16", 2},
                                               {"f16", 2},
                                               {"f8e4m3", 1},
                                               {"f8e5m2", 1},
                                               {"i64", 8},
                                               {"i32", 4},
                                               {"i16", 2},
                                               {"i8", 1},
                                               {"u8", 1},
                                               {"b8", 1}}};

constexpr std::array<std::string_view, 5> kInputKinds = {"parameter", "optimizer", "buffer", "batch",
                                                         "saved"};

}  // namespace

std::int64_t dtype_bytes(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::string_view input_kind_name(InputKind kind) { return kInputKinds[static_cast<std::size_t>(kind)]; }

std::optional<InputKind> input_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kInputKinds.size(); ++i)
    if (kInputKinds[i] == name) return static_cast<InputKind>(i);
  return std::nullopt;
}

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

TensorType contiguous(DType dtype, std::vector<std::int64_t> sizes) {
  std::vector<std::int64_t> strides = contiguous_strides(sizes);
  return {dtype, std::move(sizes), std::move(strides)};
}

bool is_contiguous(const TensorType& type) {
  std::int64_t expected = 1;
  for (std::size_t i = type.sizes.size(); i-- > 0;) {
    if (type.sizes[i] == 0) return true;
    if (type.sizes[i] == 1) continue;
    if (type.strides[i] != expected) return false;
    expected *= type.sizes[i];
  }
  return true;
}

std::int64_t element_count(const TensorType& type) {
  std::int64_t count = 1;
  for (std::int64_t size : type.sizes) count *= size;
  return count;
}

std::int64_t storage_bytes(const TensorType& type) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] == 0) return 0;
    elements += (type.sizes[i] - 1) * type.strides[i];
  }
  return elements * dtype_bytes(type.dtype);
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId operand(const Node& node, std::size_t position) {
  const auto* use = argument<Use>(node, position);
  return use != nullptr ? use->value : kNoValue;
}

std::int64_t integer(const Node& node, std::size_t position) {
  const auto* value = argument<std::int64_t>(node, position);
  return value != nullptr ? *value : 0;
}

std::optional<double> number(const Node& node, std::size_t position) {
  if (const auto* real = argument<double>(node, position)) return *real;
  if (const auto* whole = argument<std::int64_t>(node, position)) return static_cast<double>(*whole);
  if (const auto* wrapped = argument<WrappedNumber>(node, position))
    return std::visit([](auto n) { return static_cast<double>(n); }, wrapped->number);
  return std::nullopt;
}

IdMap<std::int32_t> blocks_of_nodes(const Graph& graph) {
  std::unordered_map<std::string_view, std::int32_t> index;
  for (std::size_t i = 0; i < graph.blocks.size(); ++i)
    index.emplace(graph.blocks[i], static_cast<std::int32_t>(i));
  std::unordered_map<std::string_view, std::int32_t> of_module;
  const auto find = [&](std::string_view module) {
    for (std::string_view path = module;; path = path.substr(0, path.rfind('.'))) {
      if (const auto block = index.find(path); block != index.end()) return block->second;
      if (path.find('.') == std::string_view::npos) return -1;
    }
  };
  IdMap<std::int32_t> blocks;
  blocks.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    const auto [entry, is_new] = of_module.try_emplace(node.module, -1);
    if (is_new) entry->second = find(node.module);
    blocks.push_back(entry->second);
  }
  return blocks;
}

void replace_uses(Graph& graph, const IdMap<ValueId>& replacement) {
  const auto rewrite = [&](ValueId& id) {
    if (id == kNoValue) return;
    const ValueId other = replacement[id];
    if (other != kNoValue) id = other;
  };
  for (Node& node : graph.nodes) for_each_operand(node, rewrite);
  for (Value& value : graph.values) {
    rewrite(value.views);
    rewrite(value.writes);
  }
}

void keep_nodes(Graph& graph, const std::vector<bool>& keep) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!keep[i]) continue;
    if (end != i) graph.nodes[end] = std::move(graph.nodes[i]);
    ++end;
  }
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(end), graph.nodes.end());
}

}  // namespace rondo::ir

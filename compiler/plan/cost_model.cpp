// The roofline is a maximum: launch, then bytes over bandwidth, then operations over the rate for their kind.
// Bytes of an operand are the smaller of its storage and its elements, so broadcasts and slices count what is
// touched. Ops such as embedding read a few rows of an operand, which is left out. A group that leaves the
// node divides the network by its stride, up to the ranks of a node, since the groups between call at the
// same time.
#include "compiler/plan/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "compiler/ir/op_facts.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

// Ops that look into an operand at a few places instead of reading it: which tensor operand.
struct LooksInto {
  std::string_view op;
  int operand;
};
constexpr std::array kLooksInto = {
    LooksInto{"aten.embedding.default", 0},
    LooksInto{"aten.index_select.default", 0},
};

int looked_into(std::string_view op) {
  for (const LooksInto& row : kLooksInto)
    if (row.op == op) return row.operand;
  return -1;
}

bool only_allocates(std::string_view op) {
  return op.starts_with("aten.empty") || op.starts_with("aten.new_empty");
}

// A broadcast operand is as small in memory as what it was made of; a slice has no more than its elements.
double touched_bytes(const TensorType& type) {
  return static_cast<double>(std::min(storage_bytes(type), element_count(type) * dtype_bytes(type.dtype)));
}

// (a, scale_a, b, scale_b, dtype, fast_accumulation, emulate)
double float8_rate(const Graph& graph, const Node& node, const DeviceModel& device) {
  if (node.args.back() == Argument(true)) return device.peak_fp32_flops_per_s;
  const auto in_blocks = [&](std::size_t scales) {
    const std::vector<std::int64_t>& sizes = graph.value(operand(node, scales)).type.sizes;
    return !sizes.empty() && sizes.back() > 1;
  };
  return device.peak_float8_flops_per_s *
         (in_blocks(1) || in_blocks(3) ? device.float8_blocks_fraction : device.float8_fraction);
}

// Of what is multiplied: its results may be sums of another dtype.
double peak_for(const Graph& graph, const Node& node, const DeviceModel& device) {
  DType dtype = DType::f32;
  bool is_first = true;
  for_each_operand(node, [&](ValueId id) {
    if (std::exchange(is_first, false)) dtype = graph.value(id).type.dtype;
  });
  if (node.op == "rondo.float8_mm.default") return float8_rate(graph, node, device);
  return dtype == DType::bf16 || dtype == DType::f16 ? device.peak_16bit_flops_per_s
                                                     : device.peak_fp32_flops_per_s;
}

using Sizes = std::vector<std::int64_t>;

// A product as GPU libraries compute it: tiles of the result, one a multiprocessor at a time.
struct ProductShape {
  double groups = 1, m = 1, n = 1, k = 1;
};

// REQUIRES a node with operations.
ProductShape shape_of(const Graph& graph, const Node& node, double operations) {
  std::array<const Sizes*, 2> operands{};
  std::size_t count = 0;
  for_each_operand(node, [&](ValueId id) {
    if (count < 2) operands[count++] = &graph.value(id).type.sizes;
  });
  const Sizes& result = graph.value(node.results[0]).type.sizes;
  ProductShape shape;
  // Of a grouped product either the result or the weight has a part for each group.
  if (result.size() == 3) {
    shape.groups = static_cast<double>(result[0]);
  } else if (count == 2 && operands[1]->size() == 3) {
    shape.groups = static_cast<double>(operands[1]->at(0));
  }
  shape.n = result.empty() ? 1 : static_cast<double>(result.back());
  shape.m = static_cast<double>(element_count(graph.value(node.results[0]).type)) / shape.n / shape.groups;
  shape.k = operations / (2 * shape.groups * shape.m * shape.n);
  return shape;
}

// Of the rate with full tiles: tiles reach over the edges of the result, the last wave leaves multiprocessors
// without a tile, and a tile's pipeline fills and drains once for each sum. Tiles of 128 x 256 have the full
// rate; of 128 x 128, which load half as much again for each operation, there are twice as many.
double share_of_rate(const ProductShape& p, int multiprocessors) {
  constexpr double kSmallTileRate = 0.85, kPipelineDepth = 256;
  struct Tile {
    double m, n, rate;
  };
  double best = 0;
  for (const Tile& tile : {Tile{128, 256, 1}, Tile{256, 128, 1}, Tile{128, 128, kSmallTileRate}}) {
    const double tiles = p.groups * std::ceil(p.m / tile.m) * std::ceil(p.n / tile.n);
    const double waves = std::ceil(tiles / multiprocessors);
    const double filled = p.groups * p.m * p.n / (waves * multiprocessors * tile.m * tile.n);
    best = std::max(best, tile.rate * filled);
  }
  return best * p.k / (p.k + kPipelineDepth);
}

double product_seconds(const ProductShape& p, double peak, const DeviceModel& device) {
  const double share = device.multiprocessors == 0 ? 1 : share_of_rate(p, device.multiprocessors);
  return 2 * p.groups * p.m * p.n * p.k / (peak * device.matmul_fraction * share);
}

double memory_seconds(double bytes, const DeviceModel& device) {
  return bytes / (device.peak_memory_bytes_per_s * device.memory_fraction);
}

// A head's products and its loss, chunk by chunk: each product takes the longer of its operations and its
// bytes, and what is done to the logits between them their bytes. With gradients every chunk but the first
// reads the sum in f32 that it adds the weight's gradient to. REQUIRES: the chunk's logits are the last
// result.
double loss_seconds(const Graph& graph, const Node& node, double peak, const DeviceModel& device) {
  std::array<const TensorType*, 2> operands{};
  std::size_t count = 0;
  for_each_operand(node, [&](ValueId id) {
    if (count < 2) operands[count++] = &graph.value(id).type;
  });
  const auto all_rows = static_cast<double>(operands[0]->sizes.at(0));
  const auto width = static_cast<double>(operands[0]->sizes.at(1));
  const auto classes = static_cast<double>(operands[1]->sizes.at(0));
  const auto rows = static_cast<double>(graph.value(node.results.back()).type.sizes.at(0));
  const auto element = static_cast<double>(dtype_bytes(operands[0]->dtype));
  const double chunks = all_rows / rows, of_h = rows * width * element, of_logits = rows * classes * element,
               of_weight = classes * width * element, of_sum = classes * width * 4;
  const auto product = [&](double m, double n, double k, double bytes) {
    return std::max(product_seconds({1, m, n, k}, peak, device), memory_seconds(bytes, device));
  };
  double chunk = product(rows, classes, width, of_h + of_weight + of_logits);
  if (flops(graph, node) < 3 * 2 * all_rows * width * classes)
    return chunks * (chunk + memory_seconds(of_logits, device));
  chunk += memory_seconds(3 * of_logits, device);  // read for the sum, read and overwritten for the gradient
  chunk += product(rows, width, classes, of_h + of_weight + of_logits);
  chunk += product(classes, width, rows, of_h + of_logits + of_sum * (2 - 1 / std::max(chunks, 1.0)));
  return chunks * chunk;
}

// Of the rate of long sequences: `half` is the causal sequence at which half of it is reached, and a query
// counts as many keys as its mask lets it see on average.
double share_of_attention(const Graph& graph, const Node& node, double half) {
  double keys = 0;
  for_each_operand(node, [&](ValueId id) {
    const Sizes& sizes = graph.value(id).type.sizes;
    if (sizes.size() == 4) keys = std::max(keys, static_cast<double>(sizes[2]));
  });
  const double seen = attended_pairs(mask_of(node), static_cast<std::int64_t>(keys)) / keys;
  return 2 * seen / (2 * seen + half);
}

// Keys at any positions are met by a kernel of ours that multiplies row by row.
bool has_key_positions(const Node& node) {
  return operand(node, node.op == "rondo.attention.default" ? 10 : 12) != kNoValue;
}

// Where ranks have neighbouring queries of each row, the last has the keys of nearly all of it under a causal
// mask, while the mean is half; and the others wait for it. Its share over the mean.
double busiest_over_mean(const Graph& graph, const Node& node) {
  const bool forward = node.op == "rondo.attention.default";
  const AttentionMask mask = mask_of(node);
  const bool causal = mask.left == AttentionMask::kUnlimited && mask.right == 0 && mask.chunk == 0;
  if (number(node, forward ? 11 : 13) != 1.0 || !causal) return 1;
  const auto tokens = [&](std::size_t argument) {
    const ValueId id = operand(node, argument);
    const bool heads = id != kNoValue && graph.value(id).type.sizes.size() == 4;
    return heads ? static_cast<double>(graph.value(id).type.sizes[2]) : 0.0;
  };
  const double queries = tokens(forward ? 0 : 1), keys = tokens(forward ? 1 : 2);
  return queries < keys ? 2 - queries / keys : 1;
}

double whole_bytes(const Graph& graph, const Node& node, bool results) {
  double bytes = 0;
  const auto add = [&](ValueId id) { bytes += touched_bytes(graph.value(id).type); };
  if (results) {
    std::for_each(node.results.begin(), node.results.end(), add);
  } else {
    for_each_operand(node, add);
  }
  return bytes;
}

}  // namespace

bool moves_nothing(const Graph& graph, const Node& node) {
  if (node.op == kReturn || only_allocates(node.op)) return true;
  const Effect effect = facts(node.op).effect;
  if (effect == Effect::wait || runs_in_background(effect)) return true;
  return std::all_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).views != kNoValue; });
}

bool is_read_twice(const Graph& graph, const Node& node) {
  if (node.op != "rondo.quantize_float8.default" || number(node, 2) != 0.0) return false;
  const TensorType& x = graph.value(operand(node, 0)).type;
  return number(node, 1) != 1.0 || x.strides.empty() || x.strides.back() != 1;
}

double bytes_moved(const Graph& graph, const Node& node) {
  if (moves_nothing(graph, node)) return 0;
  const int skipped = looked_into(node.op);
  double bytes = whole_bytes(graph, node, /*results=*/true);
  int operand = 0;
  for_each_operand(node, [&](ValueId id) {
    if (operand++ != skipped) bytes += touched_bytes(graph.value(id).type);
  });
  if (is_read_twice(graph, node)) bytes += touched_bytes(graph.value(rondo::ir::operand(node, 0)).type);
  return bytes;
}

NodeCost node_cost(const Graph& graph, const Node& node, const DeviceModel& device) {
  if (moves_nothing(graph, node)) return {};
  NodeCost cost{device.launch_s, CostKind::launch};
  const auto at_least = [&](double seconds, CostKind kind) {
    if (seconds > cost.seconds) cost = {seconds, kind};
  };
  at_least(memory_seconds(bytes_moved(graph, node), device), CostKind::memory);
  double operations = flops(graph, node);
  if (operations == 0) return cost;
  const double peak = peak_for(graph, node, device);
  const bool is_attention =
      node.op == "rondo.attention.default" || node.op == "rondo.attention_backward.default";
  if (is_attention) operations *= busiest_over_mean(graph, node);
  if (is_attention && device.is_gpu && has_key_positions(node)) {
    at_least(operations / (peak * device.any_positions_fraction), CostKind::attention);
  } else if (node.op == "rondo.attention.default") {
    at_least(operations / (peak * device.attention_forward_fraction *
                           share_of_attention(graph, node, device.attention_forward_half)),
             CostKind::attention);
  } else if (node.op == "rondo.attention_backward.default") {
    at_least(operations / (peak * device.attention_backward_fraction *
                           share_of_attention(graph, node, device.attention_backward_half)),
             CostKind::attention);
  } else if (node.op.starts_with("rondo.linear_cross_entropy")) {
    at_least(loss_seconds(graph, node, peak, device), CostKind::matmul);
  } else {
    at_least(product_seconds(shape_of(graph, node, operations), peak, device), CostKind::matmul);
  }
  return cost;
}

double collective_bytes(const Graph& graph, const Node& node) {
  const double bytes = whole_bytes(graph, node, is_collective(node, CollectiveKind::all_gather));
  // Of one that is done when it returns, one of the two is as long as the bound of what may come, the other
  // as what really travels.
  return facts(node.op).effect == Effect::host_sync
             ? std::min(bytes, whole_bytes(graph, node, /*results=*/true))
             : bytes;
}

double sent_bytes(CollectiveKind kind, double bytes, std::int64_t ranks) {
  if (ranks <= 1) return 0;
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  if (kind == CollectiveKind::broadcast) return bytes;
  return kind == CollectiveKind::all_reduce ? 2 * share * bytes : share * bytes;
}

bool within_node(std::int64_t ranks, std::int64_t stride, const DeviceModel& device) {
  return (ranks - 1) * stride < device.ranks_per_node;
}

namespace {

// What a rank has of it, where those that lie between two that it joins use it, too.
Link link_of(bool one_node, std::int64_t stride, const DeviceModel& device) {
  if (one_node) return device.within_node;
  Link link = device.between_nodes;
  link.bytes_per_s /= static_cast<double>(std::min<std::int64_t>(stride, device.ranks_per_node));
  return link;
}

}  // namespace

double collective_seconds(CollectiveKind kind, double bytes, std::int64_t ranks, const DeviceModel& device,
                          std::int64_t stride) {
  if (ranks <= 1) return 0;
  const bool one_node = within_node(ranks, stride, device);
  const Link link = link_of(one_node, stride, device);
  const double hops = static_cast<double>(ranks - 1) * (kind == CollectiveKind::all_reduce ? 2 : 1);
  return sent_bytes(kind, bytes, ranks) / link.bytes_per_s + hops * link.hop_s;
}

GroupShape group_shape(const Graph& graph, const Collective& collective) {
  const auto& groups = graph.mesh.groups;
  const auto group = std::find_if(groups.begin(), groups.end(),
                                  [&](const MeshGroup& g) { return g.name == collective.group; });
  if (group == groups.end() || group->axes.empty()) return {std::max<std::int64_t>(collective.ranks, 2), 1};
  // Axes stand with the outermost first; a group's innermost says how far apart its ranks are.
  GroupShape shape;
  for (const std::int32_t axis : group->axes) shape.ranks *= graph.mesh.axes.at(axis).ranks;
  const std::int32_t inner = *std::max_element(group->axes.begin(), group->axes.end());
  for (std::size_t axis = inner + 1; axis < graph.mesh.axes.size(); ++axis)
    shape.stride *= graph.mesh.axes[axis].ranks;
  return shape;
}

double collective_seconds(const Graph& graph, const Node& node, const GroupShape& shape,
                          const DeviceModel& device) {
  const double rate = facts(node.op).effect == Effect::host_sync ? device.exchange_fraction : 1;
  return collective_seconds(collective_of(node)->kind, collective_bytes(graph, node), shape.ranks, device,
                            shape.stride) /
         rate;
}

double message_seconds(double bytes, std::int64_t from, std::int64_t to, const DeviceModel& device) {
  const bool one_node = from / device.ranks_per_node == to / device.ranks_per_node;
  const Link link = link_of(one_node, std::abs(to - from), device);
  return bytes / link.bytes_per_s + link.hop_s;
}

}  // namespace rondo::ir

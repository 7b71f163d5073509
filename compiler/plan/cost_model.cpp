// The roofline is the maximum of one launch, bytes over bandwidth, and operations over the rate for
// their kind. Tables from which ops such as embedding read a few rows are not counted. A group that
// spans nodes has a share of the network: one over its stride, up to the ranks of a node, since the
// groups in between communicate at the same time.
#include "compiler/plan/cost_model.h"

#include <algorithm>
#include <cmath>

namespace rondo::ir {

bool moves_nothing(const Graph& graph, const Node& node) {
  const Op& op = facts(node.op);
  if (node.op == kReturn || op.allocates || op.effect == Effect::wait || runs_in_background(op.effect))
    return true;
  return std::all_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).views != kNoValue; });
}

double bytes_moved(const Graph& graph, const Node& node) {
  if (moves_nothing(graph, node)) return 0;
  const Op& op = facts(node.op);
  return op.bytes != nullptr ? op.bytes(graph, node) : operand_bytes(graph, node) + result_bytes(graph, node);
}

NodeCost node_cost(const Graph& graph, const Node& node, const DeviceModel& device) {
  if (moves_nothing(graph, node)) return {};
  NodeCost cost{device.launch_s, CostKind::launch};
  const auto at_least = [&](const NodeCost& other) {
    if (other.seconds > cost.seconds) cost = other;
  };
  at_least({memory_seconds(bytes_moved(graph, node), device), CostKind::memory});
  const double operations = flops(graph, node);
  if (operations == 0) return cost;
  // The rate depends on the dtype of the operands; results may be sums of another dtype.
  const DType dtype = first_operand(graph, node).dtype;
  const bool is_16bit = dtype == DType::bf16 || dtype == DType::f16;
  const double peak = is_16bit ? device.peak_16bit_flops_per_s : device.peak_fp32_flops_per_s;
  at_least(facts(node.op).cost({graph, node, device, operations, peak}));
  return cost;
}

std::int64_t launches(const Graph& graph, const Node& node) {
  const Op& op = facts(node.op);
  if (runs_in_background(op.effect)) return 1;
  if (moves_nothing(graph, node)) return 0;
  return op.count_launches != nullptr ? op.count_launches(graph, node) : op.launches;
}

double collective_bytes(const Graph& graph, const Node& node) {
  const double results = result_bytes(graph, node);
  if (is_collective(node, CollectiveKind::all_gather)) return results;
  const double operands = operand_bytes(graph, node);
  // In an exchange that is complete when it returns, operand or result has the size of the bound.
  // The smaller of them has the size of the rows that are sent.
  return facts(node.op).effect == Effect::host_sync ? std::min(operands, results) : operands;
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

// Returns a rank's share of a link that the ranks between two neighbours of the group use too.
Link link_of(bool one_node, std::int64_t stride, const DeviceModel& device) {
  if (one_node) return device.within_node;
  Link link = device.between_nodes;
  link.bytes_per_s /= static_cast<double>(std::min<std::int64_t>(stride, device.ranks_per_node));
  return link;
}

// Share of the links' rate with the protocol for small messages.
constexpr double kSmallMessageRate = 0.25;

std::int64_t ranks_on_a_node(std::int64_t ranks, std::int64_t stride, const DeviceModel& device) {
  return std::min(ranks,
                  std::max<std::int64_t>(1, device.ranks_per_node / std::max<std::int64_t>(stride, 1)));
}

// Returns the time of the bytes that each rank exchanges with the others. All ranks of a node send
// to other nodes at the same time, so each has the rate of its own network card.
double exchange_seconds(double bytes, std::int64_t ranks, std::int64_t stride, const DeviceModel& device) {
  const std::int64_t near = ranks_on_a_node(ranks, stride, device);
  const double to_each = bytes / static_cast<double>(ranks);
  const double card = device.between_nodes.bytes_per_s / device.ranks_per_node;
  const double within_s =
      near > 1 ? static_cast<double>(near - 1) * to_each / device.within_node.bytes_per_s : 0;
  return std::max(within_s, ranks > near ? static_cast<double>(ranks - near) * to_each / card : 0);
}

// Returns the latency of one pass over a group with the protocol for small messages. The ranks of a
// node are a chain. Nodes are a binary tree for reductions and broadcasts, and a ring otherwise.
double small_hops_s(CollectiveKind kind, std::int64_t ranks, std::int64_t stride, const DeviceModel& device) {
  const std::int64_t in_node = ranks_on_a_node(ranks, stride, device);
  const auto nodes = static_cast<double>((ranks + in_node - 1) / in_node);
  const bool is_tree = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
  const double within = static_cast<double>(in_node - 1) * (is_tree ? 1 : nodes);
  const double between = is_tree ? std::ceil(std::log2(nodes)) : nodes - 1;
  return within * device.within_node.small_hop_s + between * device.between_nodes.small_hop_s;
}

}  // namespace

double collective_seconds(CollectiveKind kind, double bytes, std::int64_t ranks, const DeviceModel& device,
                          std::int64_t stride) {
  if (ranks <= 1) return 0;
  const bool one_node = within_node(ranks, stride, device);
  const Link link = link_of(one_node, stride, device);
  const double passes = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double at_rate_s = kind == CollectiveKind::all_to_all
                               ? exchange_seconds(bytes, ranks, stride, device)
                               : sent_bytes(kind, bytes, ranks) / link.bytes_per_s;
  const double ring_s = at_rate_s + passes * static_cast<double>(ranks - 1) * link.hop_s;
  if (link.small_hop_s == 0) return ring_s;
  return std::min(ring_s, at_rate_s / kSmallMessageRate + passes * small_hops_s(kind, ranks, stride, device));
}

GroupShape group_shape(const Graph& graph, const Collective& collective) {
  const auto& groups = graph.mesh.groups;
  const auto group = std::find_if(groups.begin(), groups.end(),
                                  [&](const MeshGroup& g) { return g.name == collective.group; });
  if (group == groups.end() || group->axes.empty()) return {std::max<std::int64_t>(collective.ranks, 2), 1};
  // The outermost axis is first. The innermost axis of a group determines the stride of its ranks.
  GroupShape shape;
  for (const std::int32_t axis : group->axes) shape.ranks *= graph.mesh.axes.at(axis).ranks;
  const std::int32_t inner = *std::max_element(group->axes.begin(), group->axes.end());
  for (std::size_t axis = inner + 1; axis < graph.mesh.axes.size(); ++axis)
    shape.stride *= graph.mesh.axes[axis].ranks;
  return shape;
}

double collective_seconds(const Graph& graph, const Node& node, const GroupShape& shape,
                          const DeviceModel& device) {
  const double seconds = collective_seconds(collective_of(node)->kind, collective_bytes(graph, node),
                                            shape.ranks, device, shape.stride);
  if (facts(node.op).effect != Effect::host_sync) return seconds;
  return seconds / device.exchange_fraction + device.exchange_s;
}

double message_seconds(double bytes, std::int64_t from, std::int64_t to, const DeviceModel& device) {
  const bool one_node = from / device.ranks_per_node == to / device.ranks_per_node;
  const Link link = link_of(one_node, std::abs(to - from), device);
  return bytes / link.bytes_per_s + link.hop_s;
}

}  // namespace rondo::ir

// The roofline is a maximum: launch, then bytes over bandwidth, then operations over the rate for their kind.
// Bytes of an operand are the smaller of its storage and its elements, so broadcasts and slices count what is
// touched. Ops such as embedding read a few rows of an operand, which is left out. flops() counts the whole
// square of attention, so the kernel's time takes half. A group that leaves the node divides the network by
// its stride, up to the ranks of a node, since the groups between call at the same time.
#include "compiler/plan/cost_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/ir/op_facts.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

constexpr double kTera = 1e12;
constexpr std::int64_t kGigabyte = 1'000'000'000, kGib = std::int64_t{1} << 30;

constexpr Link kNvlink4{450e9 * 0.80, 9e-6};
constexpr Link kEightNetworkCards{8 * 50e9 * 0.95, 7.3e-6};

constexpr DeviceModel hopper(std::string_view name, std::string_view what, std::int64_t memory_gb,
                             double memory_tb_per_s) {
  DeviceModel d;
  d.name = name;
  d.what = what;
  d.memory_bytes = memory_gb * kGigabyte;
  d.reserve_bytes = 3 * kGib;
  d.peak_16bit_flops_per_s = 989 * kTera;
  d.peak_fp32_flops_per_s = 67 * kTera;
  d.peak_memory_bytes_per_s = memory_tb_per_s * kTera;
  d.matmul_fraction = 0.80;
  d.attention_forward_fraction = 644.0 / 989;
  d.attention_backward_fraction = 541.0 / 989;
  d.memory_fraction = 0.90;
  d.launch_s = 4e-6;
  d.within_node = kNvlink4;
  d.between_nodes = kEightNetworkCards;
  d.host_bytes_per_s = 64e9 * 0.85;
  return d;
}

constexpr DeviceModel two_cores() {
  DeviceModel d;
  d.name = "cpu";
  d.what = "two cores of Zen 4";
  d.is_gpu = false;
  d.peak_16bit_flops_per_s = 410e9;
  d.peak_fp32_flops_per_s = 188e9;
  d.peak_memory_bytes_per_s = 28e9;
  d.launch_s = 0.9e-6;
  d.within_node = d.between_nodes = {28e9 / 5, 100e-6};
  d.host_bytes_per_s = 28e9 / 2;  // a copy reads and writes the same memory
  return d;
}

constexpr std::array kDevices = {
    hopper("h200", "NVIDIA H200 SXM, 141 GB", 141, 4.8),
    hopper("h100", "NVIDIA H100 SXM, 80 GB", 80, 3.35),
    hopper("h100-96gb", "NVIDIA H100 SXM, 96 GB at 2.4 TB/s", 96, 2.4),
    two_cores(),
};

// Ops that look into an operand at a few places instead of reading it: which tensor operand.
struct LooksInto {
  std::string_view op;
  int operand;
};
constexpr std::array kLooksInto = {
    LooksInto{"aten.embedding.default", 0},
    LooksInto{"aten.index_select.default", 0},
    LooksInto{"aten.nll_loss_forward.default", 0},
    LooksInto{"aten.nll_loss_backward.default", 1},
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

// A node that makes nothing new: views and waits.
bool moves_nothing(const Graph& graph, const Node& node) {
  if (node.op == kReturn || only_allocates(node.op)) return true;
  const Effect effect = facts(node.op).effect;
  if (effect == Effect::wait || runs_in_background(effect)) return true;
  return std::all_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).views != kNoValue; });
}

// Of what is multiplied: its results may be sums of another dtype.
double peak_for(const Graph& graph, const Node& node, const DeviceModel& device) {
  DType dtype = DType::f32;
  bool is_first = true;
  for_each_operand(node, [&](ValueId id) {
    if (std::exchange(is_first, false)) dtype = graph.value(id).type.dtype;
  });
  return dtype == DType::bf16 || dtype == DType::f16 ? device.peak_16bit_flops_per_s
                                                     : device.peak_fp32_flops_per_s;
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

std::span<const DeviceModel> device_models() { return kDevices; }

const DeviceModel* find_device_model(std::string_view name) {
  for (const DeviceModel& device : kDevices)
    if (device.name == name) return &device;
  return nullptr;
}

const DeviceModel& device_model_for(TargetDevice device) {
  return *find_device_model(device == TargetDevice::cuda ? "h200" : "cpu");
}

double bytes_moved(const Graph& graph, const Node& node) {
  if (moves_nothing(graph, node)) return 0;
  const int skipped = looked_into(node.op);
  double bytes = whole_bytes(graph, node, /*results=*/true);
  int operand = 0;
  for_each_operand(node, [&](ValueId id) {
    if (operand++ != skipped) bytes += touched_bytes(graph.value(id).type);
  });
  return bytes;
}

NodeCost node_cost(const Graph& graph, const Node& node, const DeviceModel& device) {
  if (moves_nothing(graph, node)) return {};
  NodeCost cost{device.launch_s, CostKind::launch};
  const auto at_least = [&](double seconds, CostKind kind) {
    if (seconds > cost.seconds) cost = {seconds, kind};
  };
  at_least(bytes_moved(graph, node) / (device.peak_memory_bytes_per_s * device.memory_fraction),
           CostKind::memory);
  const double operations = flops(graph, node);
  if (operations == 0) return cost;
  const double peak = peak_for(graph, node, device);
  // flops() counts the whole square; a causal kernel computes half of it.
  if (node.op == "rondo.attention.default") {
    at_least(operations / 2 / (peak * device.attention_forward_fraction), CostKind::attention);
  } else if (node.op == "rondo.attention_backward.default") {
    at_least(operations / 2 / (peak * device.attention_backward_fraction), CostKind::attention);
  } else {
    at_least(operations / (peak * device.matmul_fraction), CostKind::matmul);
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

double collective_seconds(CollectiveKind kind, double bytes, std::int64_t ranks, const DeviceModel& device,
                          std::int64_t stride) {
  if (ranks <= 1) return 0;
  const bool one_node = within_node(ranks, stride, device);
  Link link = one_node ? device.within_node : device.between_nodes;
  if (!one_node)
    link.bytes_per_s /= static_cast<double>(std::min<std::int64_t>(stride, device.ranks_per_node));
  const double hops = static_cast<double>(ranks - 1) * (kind == CollectiveKind::all_reduce ? 2 : 1);
  return sent_bytes(kind, bytes, ranks) / link.bytes_per_s + hops * link.hop_s;
}

}  // namespace rondo::ir

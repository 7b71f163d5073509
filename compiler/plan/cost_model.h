// The cost of a graph's ops on a device, from published figures: a roofline for compute and a ring
// for collectives. The price of an op is in its row (compiler/ops/op.h). Plain C++, pure functions.
//
// The roofline treats each op as one kernel that reads its operands from device memory and writes
// its results to it once: no data remains in a cache between ops, and no ops are fused. A node
// takes the longest of three times: its floating-point operations at the rate of a matrix product
// of its shape (or of attention of its length), its bytes at the rate of large copies, and one
// launch. Views, waits and allocations take no time. Products and attention keep the share of their
// rate that the power limit sustains.
//
// In a ring, n ranks pass pieces around. So a gather or reduce-scatter of S bytes in total moves (n
// - 1) / n * S through each rank in n - 1 hops, and an all-reduce twice that. Ranks of one node use
// its own links. A group that spans nodes runs at the rate at which all network cards of a node
// receive data together. Small messages have a protocol with cheaper hops at a quarter of the rate,
// in which reductions and broadcasts go over nodes in a tree, as in NCCL. A collective takes the
// faster of the two.
#pragma once

#include <cstdint>

#include "compiler/ir/ir.h"
#include "compiler/ops/op.h"
#include "compiler/ops/price.h"

namespace rondo::ir {

// Returns true for a node without work on the compute lane: views, waits, allocations, and starts
// of background work.
bool moves_nothing(const Graph& graph, const Node& node);
// Returns the bytes that a node reads and writes: operands and results once each, unless its row
// has another rule.
double bytes_moved(const Graph& graph, const Node& node);
// Returns the cost on the compute lane, where the start of a collective costs nothing.
NodeCost node_cost(const Graph& graph, const Node& node, const DeviceModel& device);
inline double node_seconds(const Graph& graph, const Node& node, const DeviceModel& device) {
  return node_cost(graph, node, device).seconds;
}

// Returns the kernels, copies and fills that a node launches on a GPU; 0 for views, waits and
// allocations. Launches that depend on a library's choice of kernels are not counted: helpers of an
// attention backward beyond its three kernels, a fill before a sum with several blocks per element,
// and the copy of a result that a kernel wrote to another address. A recorded step has 7 to 25 %
// more (docs/results/launches_2026-11-22.md).
std::int64_t launches(const Graph& graph, const Node& node);

// Returns the bytes of the whole tensor: a gather's result, a reduce-scatter's operand. REQUIRES:
// the node is a collective.
double collective_bytes(const Graph& graph, const Node& node);

// Return the bytes that each rank sends, and the time of a collective that is alone on the link.
// `stride` is the distance from one rank of the group to the next. Interleaved groups run their
// collectives at the same time, so they share a node's links to other nodes.
double sent_bytes(CollectiveKind kind, double bytes, std::int64_t ranks);
double collective_seconds(CollectiveKind kind, double bytes, std::int64_t ranks, const DeviceModel& device,
                          std::int64_t stride = 1);
// The positions of a group's ranks.
struct GroupShape {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;  // from one of them to the next
};
// Returns the shape of the group that a collective names, by the graph's mesh. A group that the
// mesh does not have has the number of ranks of the node, or 2, at stride 1.
GroupShape group_shape(const Graph& graph, const Collective& collective);
// Returns the time of a collective of the graph in a group of this shape. If the host waits for its
// sizes, it runs at DeviceModel::exchange_fraction of the rate, and the wait is added.
double collective_seconds(const Graph& graph, const Node& node, const GroupShape& shape,
                          const DeviceModel& device);
// Returns the time of a message between two ranks if each rank between them sends one as far.
double message_seconds(double bytes, std::int64_t from, std::int64_t to, const DeviceModel& device);
// Returns true if a group of this shape is on one node.
bool within_node(std::int64_t ranks, std::int64_t stride, const DeviceModel& device);

}  // namespace rondo::ir

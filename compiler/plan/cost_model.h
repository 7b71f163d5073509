// What the ops of a graph cost on a device, from published figures: a roofline for compute, a ring for
// collectives. The price of an op is in its row (compiler/ops/op.h). Plain C++, pure functions.
//
// The roofline takes each op as one kernel that reads its operands and writes its results once, from and to
// the device's memory: nothing stays in a cache from one op to the next, and no two ops are fused. A node
// takes the longest of: its floating-point operations at the rate that a matrix product of its shape (or
// attention over its length) reaches, its bytes at the rate that large copies reach, and one launch. Views,
// waits and allocations take nothing. Not modelled: clocks under a power limit.
//
// The ring: n ranks pass pieces around, so a gather or a reduce-scatter of S bytes in all moves
// (n - 1) / n * S through each rank in n - 1 hops, an all-reduce twice that. Ranks of one node talk over its
// own links; a group that spans nodes runs at the rate at which a node's network cards together take data in.
#pragma once

#include <cstdint>

#include "compiler/ir/ir.h"
#include "compiler/ops/op.h"
#include "compiler/ops/price.h"

namespace rondo::ir {

// A node that makes nothing new on the compute lane: views, waits, allocations, what runs beside it.
bool moves_nothing(const Graph& graph, const Node& node);
// Bytes read and written by a node: operands and results, once each unless its row says otherwise.
double bytes_moved(const Graph& graph, const Node& node);
// Of compute alone: a collective's start costs nothing here.
NodeCost node_cost(const Graph& graph, const Node& node, const DeviceModel& device);
inline double node_seconds(const Graph& graph, const Node& node, const DeviceModel& device) {
  return node_cost(graph, node, device).seconds;
}

// Kernels, copies and fills that a GPU gets for a node; 0 for views, waits and allocations. What
// depends on a library's choice of kernels is left out: helpers of an attention backward beyond its
// three kernels, a fill before a sum that takes several blocks for an element, the copy of a result
// that a kernel put elsewhere. A recorded step has 7 to 25 % more
// (docs/results/launches_2026-11-22.md).
std::int64_t launches(const Graph& graph, const Node& node);

// Of the whole: a gather's result, a reduce-scatter's operand. REQUIRES: the node is a collective.
double collective_bytes(const Graph& graph, const Node& node);

// Bytes that each rank sends, and how long it takes alone on the link. `stride`: from one rank of the group
// to the next. Groups that lie between each other call their collectives at the same time, so they share a
// node's links to other nodes.
double sent_bytes(CollectiveKind kind, double bytes, std::int64_t ranks);
double collective_seconds(CollectiveKind kind, double bytes, std::int64_t ranks, const DeviceModel& device,
                          std::int64_t stride = 1);
// Where the ranks of a group stand.
struct GroupShape {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;  // from one of them to the next
};
// Of the group that a collective names, by the graph's mesh. Where that does not know it: as many side by
// side as the node says, or two.
GroupShape group_shape(const Graph& graph, const Collective& collective);
// Of a collective of the graph in such a group. Where the host waits for its sizes, at its share of the rate.
double collective_seconds(const Graph& graph, const Node& node, const GroupShape& shape,
                          const DeviceModel& device);
// Of a message from a rank to another one, where each rank between them sends one as far.
double message_seconds(double bytes, std::int64_t from, std::int64_t to, const DeviceModel& device);
// Whether such a group stays on one node.
bool within_node(std::int64_t ranks, std::int64_t stride, const DeviceModel& device);

}  // namespace rondo::ir

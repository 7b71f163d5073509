// How long a graph's schedule takes on a device, without running it: nodes in order on a lane of compute,
// collectives in order on lanes of communication. Plain C++, linear in the graph.
//
// A start puts its collective at the end of its lane, from the moment the compute lane reaches it. A wait
// holds the compute lane until that collective is done: what it waits is exposed, the rest of the collective
// is hidden. There are two such lanes, the links within a node and those between nodes; groups share them.
// Copies to the host and copies from it have a lane each.
//
// A collective that compute hides still takes multiprocessors and memory bandwidth from it: a share of the
// hidden time (DeviceModel::contention) is added to the step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "compiler/ir/ir.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {

struct CollectiveTotals {
  std::int64_t count = 0;
  double bytes = 0;       // of the whole tensors
  double sent_bytes = 0;  // by each rank
  double seconds = 0;     // on their lanes
  double exposed_s = 0;   // of these, what compute waits for
  // Adds `times` of another.
  void add(const CollectiveTotals& other, double times = 1);
};

// To and from the host.
struct TransferTotals {
  std::int64_t count = 0;
  double bytes = 0;
  double seconds = 0;    // on their lanes
  double exposed_s = 0;  // of these, what compute waits for
};

struct ComputeTotals {
  std::int64_t nodes = 0;  // that take time
  double seconds = 0;
};

// Of one rank, in one run of a graph or several.
struct StepEstimate {
  double compute_s = 0;
  double node_links_s = 0;  // the lanes of communication: within nodes,
  double network_s = 0;     // and between them
  double exposed_s = 0;     // of communication
  double slowed_s = 0;      // what compute loses to the communication beside it
  double step_s = 0;        // compute_s + exposed_s + slowed_s + transfers.exposed_s
  double flops = 0;         // ir::flops
  double moved_bytes = 0;
  std::array<ComputeTotals, 5> compute{};                                          // by CostKind
  std::map<std::pair<CollectiveKind, std::string>, CollectiveTotals> collectives;  // by kind and group
  TransferTotals transfers;
  std::map<std::string, std::int64_t> launches;  // by op (cost_model.h)

  std::int64_t all_launches() const;
  const ComputeTotals& of(CostKind kind) const { return compute[static_cast<std::size_t>(kind)]; }
  CollectiveTotals of(CollectiveKind kind) const;  // over all groups
  double communication_s() const { return node_links_s + network_s; }
  // Adds `times` runs of another graph after this one.
  void add(const StepEstimate& other, double times);
};

// By name. Of a group that is not here the ranks stand side by side, as many as the node says.
using GroupShapes = std::map<std::string, GroupShape, std::less<>>;

// Seconds of products that were measured on the device, by product_key (matmul_products.h).
using ProductSeconds = std::map<std::string, double>;

// `expert_rows`: of the rows that grouped matrix products have room for, the share that is computed. A
// product that is not in `measured` takes what the cost model says.
StepEstimate simulate(const Graph& graph, const DeviceModel& device, const GroupShapes& groups,
                      double expert_rows = 1, const ProductSeconds& measured = {});

}  // namespace rondo::ir

// Estimates the time of a graph's schedule on a device without running it. Nodes run in order on a
// lane of compute, and collectives in order on lanes of communication. Plain C++, linear in the
// graph.
//
// A start appends its collective to its lane when the compute lane reaches the start. A wait stops
// the compute lane until that collective is complete. This time is exposed; the rest of the
// collective is hidden. There are two lanes of communication, the links within a node and those
// between nodes, which all groups share. Copies to the host and copies from it have a lane each.
//
// A hidden collective still takes multiprocessors and memory bandwidth from compute. Each byte that
// it sends costs compute DeviceModel::contention bytes of memory traffic, whose time is added to
// the step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {

struct CollectiveTotals {
  std::int64_t count = 0;
  double bytes = 0;       // of the whole tensors
  double sent_bytes = 0;  // by each rank
  double seconds = 0;     // on their lanes
  double exposed_s = 0;   // part of `seconds` that compute waits for
  // Adds another one `times` times.
  void add(const CollectiveTotals& other, double times = 1);
};

// Copies to and from the host.
struct TransferTotals {
  std::int64_t count = 0;
  double bytes = 0;
  double seconds = 0;    // on their lanes
  double exposed_s = 0;  // part of `seconds` that compute waits for
};

struct ComputeTotals {
  std::int64_t nodes = 0;  // nodes that take time
  double seconds = 0;
};

// The estimate of one rank for one or several runs of graphs.
struct StepEstimate {
  double compute_s = 0;
  double node_links_s = 0;  // communication within nodes
  double network_s = 0;     // communication between nodes
  double exposed_s = 0;     // of communication
  double slowed_s = 0;      // time that compute loses to hidden communication
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

// Groups by name. A group that is missing has stride 1 and the number of ranks of the node.
using GroupShapes = std::map<std::string, GroupShape, std::less<>>;

// Seconds of products that were measured on the device, by product_key (matmul_products.h).
using ProductSeconds = std::map<std::string, double>;

// Estimates one run of a graph. `expert_rows` is the share of the rows of grouped matrix products
// that is computed. A product that is not in `measured` takes the time of the cost model.
StepEstimate simulate(const Graph& graph, const DeviceModel& device, const GroupShapes& groups,
                      double expert_rows = 1, const ProductSeconds& measured = {});

// Returns the time of some nodes of a graph in this order, in the groups of its mesh. What started
// before them is complete.
double seconds_of(const Graph& graph, const std::vector<const Node*>& nodes, const DeviceModel& device);

}  // namespace rondo::ir

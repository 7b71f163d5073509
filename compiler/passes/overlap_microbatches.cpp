// Orders a graph with the forward of one microbatch and the backward of another (bodies/merge.h) by
// list scheduling: when one of the two waits for a collective, the other one computes.
//
// Before:
//   attention, start: to experts, wait, experts
//   gradients of experts, start: back, wait, ...
// After:
//   attention, start: to experts, gradients of experts, start: back, wait, experts, wait, ...
//
// Each of the two keeps its own order, which earlier passes have chosen. The next node is the one
// that can begin first. A start precedes all other nodes. Of two nodes that can begin at once, the
// one with the longer remaining time is next. The clock is that of a plan (plan/clock.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/clock.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {
namespace {

// Times of each node on the device.
struct Costs {
  IdMap<double> compute_s, lane_s;
  IdMap<Lane> lanes;  // by collective
  IdMap<Effect> effects;
  IdMap<NodeIndex> awaited;  // by wait: its start
};

Costs costs_of(const Graph& graph, const DeviceModel& device) {
  const std::size_t count = graph.nodes.size();
  Costs costs{IdMap<double>(count), IdMap<double>(count), IdMap<Lane>(count), IdMap<Effect>(count),
              IdMap<NodeIndex>(count, kNoNode)};
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    costs.effects[i] = facts(node.op).effect;
    costs.compute_s[i] = node_seconds(graph, node, device);
    if (!is_collective(facts(node.op))) continue;
    const GroupShape shape = group_shape(graph, *collective_of(node));
    costs.lane_s[i] = collective_seconds(graph, node, shape, device);
    costs.lanes[i] = within_node(shape.ranks, shape.stride, device) ? Lane::node_links : Lane::network;
  }
  const IdMap<NodeIndex> waits = waits_of_starts(graph);
  for (NodeIndex i = 0; i < graph.node_count(); ++i)
    if (waits[i] != kNoNode) costs.awaited[waits[i]] = i;
  return costs;
}

// Simulates nodes one after the other.
class Player {
 public:
  explicit Player(const Costs& costs) : costs_(costs), ends_(costs.effects.size(), 0) {}

  double now() const { return clock_.now_s(); }
  // Returns the time at which the node can begin.
  double ready(NodeIndex i) const {
    const NodeIndex start = costs_.awaited[i];
    return start == kNoNode ? now() : std::max(now(), ends_[start]);
  }
  void run(NodeIndex i) {
    clock_.wait_until(ready(i));
    clock_.compute(costs_.compute_s[i]);
    if (costs_.lane_s[i] == 0) return;
    ends_[i] = clock_.start(costs_.lanes[i], costs_.lane_s[i]).end_s;
    if (costs_.effects[i] == Effect::host_sync) clock_.wait_until(ends_[i]);
  }

 private:
  const Costs& costs_;
  IdMap<double> ends_;  // by collective
  Clock clock_;
};

// One of the two graphs, in its own order.
struct Half {
  std::vector<NodeIndex> order;
  std::vector<double> left_s = {};  // by node: time from its begin to the end, alone
  std::size_t next = 0;

  bool done() const { return next == order.size(); }
  NodeIndex head() const { return order[next]; }
};

void measure(Half& half, const Costs& costs) {
  Player alone(costs);
  for (const NodeIndex i : half.order) {
    half.left_s.push_back(alone.now());
    alone.run(i);
  }
  for (double& left : half.left_s) left = alone.now() - left;
}

// Returns forward and backward. Returns empty halves where one depends on the other, and where the
// graph draws random numbers, which depend on the order of all draws.
std::array<Half, 2> divide(const Graph& graph) {
  const DefUse def_use(graph);
  IdMap<bool> backward(graph.nodes.size(), false);
  std::array<Half, 2> halves;
  for (NodeIndex i = 0; i + 1 < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    bool of_backward = node.phase == Phase::backward, of_forward = false;
    for_each_operand(node, [&](ValueId id) {
      const NodeIndex maker = def_use.maker(id);
      if (maker != kNoNode) (backward[maker] ? of_backward : of_forward) = true;
    });
    if ((of_backward && of_forward) || facts(node.op).effect == Effect::random) return {};
    backward[i] = of_backward;
    halves[of_backward ? 1 : 0].order.push_back(i);
  }
  return halves;
}

// Returns the half that runs its next node.
Half& next_of(std::array<Half, 2>& halves, const Costs& costs, const Player& player) {
  auto& [forward, backward] = halves;
  if (forward.done()) return backward;
  if (backward.done()) return forward;
  for (Half& half : halves)
    if (costs.effects[half.head()] == Effect::collective_start) return half;
  const double forward_s = player.ready(forward.head()), backward_s = player.ready(backward.head());
  if (forward_s != backward_s) return forward_s < backward_s ? forward : backward;
  return forward.left_s[forward.next] > backward.left_s[backward.next] ? forward : backward;
}

}  // namespace

Notes overlap_microbatches(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  std::array<Half, 2> halves = divide(graph);
  if (halves[0].order.empty() || halves[1].order.empty()) return unchanged();
  const Costs costs = costs_of(graph, device_model_for(options.device));
  Player serial(costs), together(costs);
  for (Half& half : halves) {
    measure(half, costs);
    for (const NodeIndex i : half.order) serial.run(i);
  }
  std::vector<NodeIndex> order;
  while (!halves[0].done() || !halves[1].done()) {
    Half& half = next_of(halves, costs, together);
    together.run(half.head());
    order.push_back(half.head());
    ++half.next;
  }
  if (together.now() >= serial.now())
    return unchanged({"forward and backward stay one after the other: overlap would hide no collective"});
  IdMap<Node> nodes;
  for (const NodeIndex i : order) nodes.push_back(std::move(graph.nodes[i]));
  nodes.push_back(std::move(graph.nodes.back()));
  graph.nodes = std::move(nodes);
  return {fmt::format("forward and backward take {:.1f} % less time than one after the other",
                      100 * (1 - together.now() / serial.now()))};
}

}  // namespace rondo::ir

// Goes over the schedule once with its clock. A wait moves the clock to the end of the awaited
// work. The difference is exposed time of all work that the lane does in between. An exchange in
// which the host takes part starts and waits at the same node. Work on a lane points to the total
// that waits add to; the map keeps such addresses valid.
#include "compiler/plan/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "compiler/ops/op.h"
#include "compiler/ops/price.h"
#include "compiler/plan/clock.h"
#include "compiler/plan/matmul_products.h"

namespace rondo::ir {
namespace {

// Work on a lane. Waits for it add to *exposed_s.
struct Busy {
  Span span;
  double* exposed_s = nullptr;
};

// Started work: an index into the work of its lane.
struct Pending {
  Lane lane{};
  std::size_t index = 0;
};

class Simulator {
 public:
  Simulator(const Graph& graph, const DeviceModel& device, const GroupShapes& groups, double expert_rows,
            const ProductSeconds& measured)
      : graph_(graph),
        device_(device),
        groups_(groups),
        expert_rows_(expert_rows),
        measured_(measured),
        started_by_(graph.values.size(), -1) {}

  StepEstimate run() {
    for (const Node& node : graph_.nodes) {
      if (const std::int64_t count = launches(graph_, node); count > 0) estimate_.launches[node.op] += count;
      switch (facts(node.op).effect) {
        case Effect::collective_start:
          start(node);
          break;
        case Effect::transfer_start:
          transfer(node);
          break;
        case Effect::wait:
          for_each_operand(node, [&](ValueId id) { wait(id); });
          break;
        case Effect::host_sync:
          compute(node);
          if (is_collective(facts(node.op))) {
            start(node);
            wait(node.results.at(0));
          }
          break;
        default:
          compute(node);
      }
    }
    double hidden_bytes = 0;
    for (const auto& [key, totals] : estimate_.collectives) {
      estimate_.exposed_s += totals.exposed_s;
      if (totals.seconds > totals.exposed_s)
        hidden_bytes += totals.sent_bytes * (1 - totals.exposed_s / totals.seconds);
    }
    estimate_.slowed_s = memory_seconds(device_.contention * hidden_bytes, device_);
    estimate_.step_s = clock_.now_s() + estimate_.slowed_s;
    return estimate_;
  }

 private:
  void compute(const Node& node) {
    NodeCost cost = node_cost(graph_, node, device_);
    if (cost.kind == CostKind::nothing) return;
    if (!measured_.empty())
      if (const auto time = measured_.find(product_key(graph_, node)); time != measured_.end())
        cost.seconds = time->second;
    const double share = share_of_rows(node);
    const double seconds = cost.seconds * share;
    ComputeTotals& totals = estimate_.compute[static_cast<std::size_t>(cost.kind)];
    ++totals.nodes;
    totals.seconds += seconds;
    estimate_.compute_s += seconds;
    estimate_.flops += flops(graph_, node) * share;
    estimate_.moved_bytes += bytes_moved(graph_, node);
    clock_.compute(seconds);
  }

  // Rows of experts that do not count are not read. Products leave them out of their price, while
  // other ops write zeros.
  double share_of_rows(const Node& node) const {
    const Op& op = facts(node.op);
    if (!op.of_experts) return 1;
    if (op.is_heavy()) return expert_rows_;
    const double read = operand_bytes(graph_, node), written = result_bytes(graph_, node);
    return (expert_rows_ * read + written) / (read + written);
  }

  void start(const Node& node) {
    const Collective c = *collective_of(node);
    const double bytes = collective_bytes(graph_, node);
    const auto group = groups_.find(c.group);
    GroupShape shape = group == groups_.end() ? GroupShape{} : group->second;
    if (c.ranks != 0) shape.ranks = c.ranks;
    const double seconds = collective_seconds(graph_, node, shape, device_);
    const bool in_node = within_node(shape.ranks, shape.stride, device_);
    CollectiveTotals& totals = estimate_.collectives[{c.kind, std::string(c.group)}];
    ++totals.count;
    totals.bytes += bytes;
    totals.sent_bytes += sent_bytes(c.kind, bytes, shape.ranks);
    totals.seconds += seconds;
    (in_node ? estimate_.node_links_s : estimate_.network_s) += seconds;
    run_on_lane(node, in_node ? Lane::node_links : Lane::network, seconds, &totals.exposed_s);
  }

  void transfer(const Node& node) {
    const Value& copy = graph_.value(node.results.at(0));
    const auto bytes = static_cast<double>(element_count(copy.type) * dtype_bytes(copy.type.dtype));
    const double seconds = bytes / device_.host_bytes_per_s;
    ++estimate_.transfers.count;
    estimate_.transfers.bytes += bytes;
    estimate_.transfers.seconds += seconds;
    run_on_lane(node, copy.on_host ? Lane::to_host : Lane::from_host, seconds,
                &estimate_.transfers.exposed_s);
  }

  void run_on_lane(const Node& node, Lane lane, double seconds, double* exposed_s) {
    std::vector<Busy>& done = done_[static_cast<std::size_t>(lane)];
    done.push_back({clock_.start(lane, seconds), exposed_s});
    for (ValueId id : node.results) started_by_[id] = static_cast<std::int32_t>(pending_.size());
    pending_.push_back({lane, done.size() - 1});
  }

  void wait(ValueId id) {
    const std::int32_t index = started_by_[id];
    if (index < 0) return;
    const auto& [lane, last] = pending_[index];
    const std::vector<Busy>& done = done_[static_cast<std::size_t>(lane)];
    for (std::size_t i = last + 1; i-- > 0 && done[i].span.end_s > clock_.now_s();)
      *done[i].exposed_s += done[i].span.end_s - std::max(done[i].span.begin_s, clock_.now_s());
    clock_.wait_until(done[last].span.end_s);
  }

  const Graph& graph_;
  const DeviceModel& device_;
  const GroupShapes& groups_;
  const double expert_rows_;
  const ProductSeconds& measured_;
  IdMap<std::int32_t> started_by_;  // by value: index into pending_
  IdMap<Pending> pending_;
  StepEstimate estimate_;
  Clock clock_;
  std::array<std::vector<Busy>, kLanes> done_;  // by lane
};

}  // namespace

StepEstimate simulate(const Graph& graph, const DeviceModel& device, const GroupShapes& groups,
                      double expert_rows, const ProductSeconds& measured) {
  return Simulator(graph, device, groups, expert_rows, measured).run();
}

double seconds_of(const Graph& graph, const std::vector<const Node*>& nodes, const DeviceModel& device) {
  Graph part;
  GroupShapes groups;
  std::map<ValueId, ValueId> ids;
  const auto own = [&](ValueId id) {
    const auto [it, is_new] = ids.emplace(id, part.value_count());
    if (is_new) part.add_value(graph.value(id));
    return it->second;
  };
  for (const Node* original : nodes) {
    Node& node = part.nodes.emplace_back(*original);
    if (const auto c = collective_of(node)) groups.emplace(c->group, group_shape(graph, *c));
    for_each_operand(node, [&](ValueId& id) { id = own(id); });
    for (ValueId& id : node.results) id = own(id);
  }
  return simulate(part, device, groups).step_s;
}

void CollectiveTotals::add(const CollectiveTotals& other, double times) {
  count += std::llround(times * static_cast<double>(other.count));
  bytes += times * other.bytes;
  sent_bytes += times * other.sent_bytes;
  seconds += times * other.seconds;
  exposed_s += times * other.exposed_s;
}

CollectiveTotals StepEstimate::of(CollectiveKind kind) const {
  CollectiveTotals sum;
  for (const auto& [key, totals] : collectives)
    if (key.first == kind) sum.add(totals);
  return sum;
}

std::int64_t StepEstimate::all_launches() const {
  std::int64_t sum = 0;
  for (const auto& [op, count] : launches) sum += count;
  return sum;
}

void StepEstimate::add(const StepEstimate& other, double times) {
  compute_s += times * other.compute_s;
  node_links_s += times * other.node_links_s;
  network_s += times * other.network_s;
  exposed_s += times * other.exposed_s;
  slowed_s += times * other.slowed_s;
  step_s += times * other.step_s;
  flops += times * other.flops;
  moved_bytes += times * other.moved_bytes;
  transfers.bytes += times * other.transfers.bytes;
  transfers.seconds += times * other.transfers.seconds;
  transfers.exposed_s += times * other.transfers.exposed_s;
  const auto whole = [times](std::int64_t count) { return std::llround(times * static_cast<double>(count)); };
  transfers.count += whole(other.transfers.count);
  for (std::size_t i = 0; i < compute.size(); ++i) {
    compute[i].nodes += whole(other.compute[i].nodes);
    compute[i].seconds += times * other.compute[i].seconds;
  }
  for (const auto& [key, totals] : other.collectives) collectives[key].add(totals, times);
  for (const auto& [op, count] : other.launches) launches[op] += whole(count);
}

}  // namespace rondo::ir

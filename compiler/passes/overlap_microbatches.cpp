// Orders a graph with the forward of one microbatch and the backward of another (bodies/merge.h) by
// list scheduling: when one of the two waits for a collective, the other one computes.
//
// Before:
//   attention, start: to experts, wait, experts
//   gradients of experts, start: back, wait, ...
// After:
//   attention, start: to experts, gradients of experts, start: back, wait, experts, wait, ...
//
// Each of the two keeps its own order, which earlier passes have chosen, and is divided into items.
// The order of the items of both is found by beam search: of all ways to run as many items, the
// best ones are kept, by a bound of their ends. The clock is that of a plan (plan/clock.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/clock.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {
namespace {

constexpr std::size_t kBeam = 128;    // ways that are kept
constexpr double kOtherBounds = 0.1;  // share of the bounds of a way that are not the latest
constexpr double kPieces = 4000;      // of the compute of both halves, if no collective divides it

using LaneTimes = std::array<double, kLanes>;

struct Started {
  NodeIndex start = kNoNode;
  Lane lane{};
  double seconds = 0;
};

// A run of nodes of one half: waits, then compute, then starts.
struct Item {
  std::vector<NodeIndex> nodes;
  std::vector<NodeIndex> waits;  // the starts that they wait for
  std::vector<Started> starts;
  double compute_s = 0;
};

// One of the two graphs, in its own order.
struct Half {
  std::vector<NodeIndex> nodes;
  std::vector<Item> items = {};
  // By item, from its begin to the end: compute of the half, time of its lanes, time of the half
  // alone.
  std::vector<double> compute_s = {}, alone_s = {};
  std::vector<LaneTimes> lanes_s = {};
};

// A way to run the first items of both halves.
struct Way {
  std::array<std::size_t, 2> done{};  // items of each half
  Clock clock;
  std::vector<std::pair<NodeIndex, double>> ends;  // of collectives without their wait, by start
  double rank = 0;                                 // the smaller, the better

  void run(const Item& item) {
    for (const NodeIndex start : item.waits) {
      const auto end =
          std::find_if(ends.begin(), ends.end(), [&](const auto& e) { return e.first == start; });
      if (end == ends.end()) continue;  // another view of the same result
      clock.wait_until(end->second);
      ends.erase(end);
    }
    clock.compute(item.compute_s);
    for (const Started& it : item.starts) ends.emplace_back(it.start, clock.start(it.lane, it.seconds).end_s);
  }
};

// The last item of a way, and the index of the way before it.
struct Link {
  std::uint16_t before = 0;
  bool of_backward = false;
};

// Divides a half into items.
class Divider {
 public:
  Divider(const Graph& graph, const DeviceModel& device) : graph_(graph), device_(device), def_use_(graph) {}

  double compute_s(const Half& half) const {
    double seconds = 0;
    for (const NodeIndex i : half.nodes) seconds += node_seconds(graph_, graph_.nodes[i], device_);
    return seconds;
  }

  void divide(Half& half, double piece_s) const {
    Item item;
    const auto end_item = [&] {
      if (!item.nodes.empty()) half.items.push_back(std::move(item));
      item = {};
    };
    for (const NodeIndex i : half.nodes) {
      const Node& node = graph_.nodes[i];
      const Effect effect = facts(node.op).effect;
      const bool waits = effect == Effect::wait, starts = is_collective(facts(node.op));
      const bool is_full = !item.starts.empty() || item.compute_s >= piece_s;
      if ((is_full && !starts) || (waits && item.compute_s > 0)) end_item();
      item.nodes.push_back(i);
      item.compute_s += node_seconds(graph_, node, device_);
      if (waits) item.waits.push_back(def_use_.maker(std::get<Use>(node.args.at(0)).value));
      if (!starts) continue;
      item.starts.push_back(started(i));
      if (effect != Effect::host_sync) continue;
      end_item();
      item.waits.push_back(i);
    }
    end_item();
    measure(half);
  }

 private:
  Started started(NodeIndex i) const {
    const Node& node = graph_.nodes[i];
    const GroupShape shape = group_shape(graph_, *collective_of(node));
    return {i, within_node(shape.ranks, shape.stride, device_) ? Lane::node_links : Lane::network,
            collective_seconds(graph_, node, shape, device_)};
  }

  static void measure(Half& half) {
    const std::size_t count = half.items.size();
    half.compute_s.assign(count + 1, 0);
    half.lanes_s.assign(count + 1, {});
    half.alone_s.assign(count + 1, 0);
    Way alone;
    for (std::size_t i = 0; i < count; ++i) {
      half.alone_s[i] = alone.clock.now_s();
      alone.run(half.items[i]);
    }
    for (std::size_t i = 0; i < count; ++i) half.alone_s[i] = alone.clock.now_s() - half.alone_s[i];
    for (std::size_t i = count; i-- > 0;) {
      half.compute_s[i] = half.compute_s[i + 1] + half.items[i].compute_s;
      half.lanes_s[i] = half.lanes_s[i + 1];
      for (const Started& it : half.items[i].starts)
        half.lanes_s[i][static_cast<std::size_t>(it.lane)] += it.seconds;
    }
  }

  const Graph& graph_;
  const DeviceModel& device_;
  DefUse def_use_;
};

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
    halves[of_backward ? 1 : 0].nodes.push_back(i);
  }
  return halves;
}

// Returns the rank of a way. It consists of the earliest possible end by the compute, by each lane
// and by each half alone: the latest of these, and a small share of the others, which tells apart
// the ways that wait for the same thing.
double rank_of(const Way& way, const std::array<Half, 2>& halves) {
  const double now = way.clock.now_s();
  double latest = now, sum = 0;
  const auto bound = [&](double end_s) {
    latest = std::max(latest, end_s);
    sum += end_s;
  };
  double compute_s = 0;
  LaneTimes lanes_s{};
  for (std::size_t h = 0; h < 2; ++h) {
    const std::size_t next = way.done[h];
    compute_s += halves[h].compute_s[next];
    bound(now + halves[h].alone_s[next]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes_s[lane] += halves[h].lanes_s[next][lane];
  }
  Clock clock = way.clock;
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    if (lanes_s[lane] > 0) bound(clock.start(static_cast<Lane>(lane), lanes_s[lane]).end_s);
  bound(now + compute_s);
  return latest + kOtherBounds * sum;
}

// Returns the ways with one more item each: for each number of forward items the best, and of these
// the best kBeam.
std::vector<Way> next_ways(const std::vector<Way>& ways, const std::array<Half, 2>& halves,
                           std::vector<Link>& links) {
  std::vector<std::pair<Way, Link>> next;  // ascending by forward items
  for (std::size_t w = 0; w < ways.size(); ++w)
    for (const std::size_t h : {1, 0}) {
      if (ways[w].done[h] == halves[h].items.size()) continue;
      std::pair<Way, Link> longer(ways[w], {static_cast<std::uint16_t>(w), h == 1});
      Way& way = longer.first;
      way.run(halves[h].items[way.done[h]++]);
      way.rank = rank_of(way, halves);
      if (next.empty() || next.back().first.done[0] != way.done[0])
        next.push_back(std::move(longer));
      else if (way.rank < next.back().first.rank)
        next.back() = std::move(longer);
    }
  if (next.size() > kBeam) {
    std::vector<double> ranks;
    for (const auto& [way, link] : next) ranks.push_back(way.rank);
    std::nth_element(ranks.begin(), ranks.begin() + kBeam - 1, ranks.end());
    std::erase_if(next, [last = ranks[kBeam - 1]](const auto& it) { return it.first.rank > last; });
    if (next.size() > kBeam) next.resize(kBeam);
  }
  std::vector<Way> kept;
  for (auto& [way, link] : next) {
    kept.push_back(std::move(way));
    links.push_back(link);
  }
  return kept;
}

// The order of the nodes of both halves, and when it ends.
struct MergedOrder {
  std::vector<NodeIndex> nodes;
  double end_s = 0;
};

MergedOrder best_order(const std::array<Half, 2>& halves) {
  const std::size_t count = halves[0].items.size() + halves[1].items.size();
  std::vector<std::vector<Link>> links(count);  // by number of items
  std::vector<Way> ways(1);
  for (std::vector<Link>& of_length : links) ways = next_ways(ways, halves, of_length);
  std::vector<bool> of_backward(count);
  for (std::size_t i = count, way = 0; i-- > 0; way = links[i][way].before)
    of_backward[i] = links[i][way].of_backward;
  MergedOrder order{{}, ways.at(0).clock.now_s()};
  std::array<std::size_t, 2> done{};
  for (const bool backward : of_backward) {
    const std::size_t h = backward ? 1 : 0;
    const std::vector<NodeIndex>& nodes = halves[h].items[done[h]++].nodes;
    order.nodes.insert(order.nodes.end(), nodes.begin(), nodes.end());
  }
  return order;
}

}  // namespace

Notes overlap_microbatches(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  std::array<Half, 2> halves = divide(graph);
  if (halves[0].nodes.empty() || halves[1].nodes.empty()) return unchanged();
  const Divider divider(graph, device_model_for(options.device));
  const double piece_s = (divider.compute_s(halves[0]) + divider.compute_s(halves[1])) / kPieces;
  for (Half& half : halves) divider.divide(half, piece_s);
  const double serial_s = halves[0].alone_s[0] + halves[1].alone_s[0];
  const MergedOrder order = best_order(halves);
  if (order.end_s >= serial_s)
    return unchanged({"forward and backward stay one after the other: overlap would hide no collective"});
  IdMap<Node> nodes;
  for (const NodeIndex i : order.nodes) nodes.push_back(std::move(graph.nodes[i]));
  nodes.push_back(std::move(graph.nodes.back()));
  graph.nodes = std::move(nodes);
  return {fmt::format("forward and backward take {:.1f} % less time than one after the other",
                      100 * (1 - order.end_s / serial_s))};
}

}  // namespace rondo::ir

// Moves up nodes that free more than they take, and moves the others down to their first reader.
//
//   %3: f32[8,32] = aten.mm.default(%1, %2)           %4: f32[4,4] = aten.mm.default(%1, %0)
//   %4: f32[4,4] = aten.mm.default(%1, %0)      ->    %3: f32[8,32] = aten.mm.default(%1, %2)
//   (no later node reads %0)                          (%0 and %3 are never live together)
//
// Nodes move within a range between two nodes that must keep their places (starts of collectives,
// random ops, writes, host reads, the borders of phases). Waits keep their places too, but other
// nodes may pass them: a bucket is packed after the wait that frees the previous bucket. No product
// moves down, since its compute may hide a collective that is awaited later. The live bytes at both
// ends of a range do not depend on the order inside, so each range is improved independently. The
// peak of the step is the highest of their peaks. Only ranges above the best reachable peak are
// changed. The new order is kept only if the memory plan, after reinplace, has a lower peak.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/memory_plan.h"

namespace rondo::ir {
namespace {

using Order = IdMap<NodeIndex>;

// Bytes of planned storages that each node takes and frees, and the dependencies between nodes.
class Storages {
 public:
  explicit Storages(const Graph& graph)
      : graph_(graph),
        roots_(storage_roots(graph)),
        def_use_(graph),
        last_(last_needed(graph, roots_)),
        bytes_(graph.values.size(), 0),
        touched_(graph.nodes.size()) {
    for (const Node& node : graph.nodes) ops_.push_back(&facts(node.op));
    for (NodeIndex i = 0; i < graph.node_count(); ++i) add_node(i);
    // State is overwritten in place.
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
      if (graph.outputs[i].updates >= 0) bytes_[root(std::get<Use>(graph.return_node().args[i]).value)] = 0;
    for (std::vector<ValueId>& roots : touched_)
      std::erase_if(roots, [&](ValueId root) { return bytes(root) == 0; });
  }

  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const Op& op(NodeIndex i) const { return *ops_[i]; }
  ValueId root(ValueId id) const { return roots_[id]; }
  std::int64_t bytes(ValueId root) const { return bytes_[root]; }
  // Returns the storages that a node reads or makes, each once, without those of inputs.
  const std::vector<ValueId>& touched(NodeIndex i) const { return touched_[i]; }
  bool made_by(NodeIndex i, ValueId root) const { return def_use_.maker(root) == i; }
  NodeIndex maker(ValueId id) const { return def_use_.maker(id); }
  bool dies_before(ValueId root, NodeIndex end) const { return last_[root] < end; }

  std::int64_t made_bytes(NodeIndex i) const {
    std::int64_t sum = 0;
    for (ValueId id : node(i).results)
      if (root(id) == id) sum += bytes(id);
    return sum;
  }
  bool is_view(NodeIndex i) const { return op(i).view != ViewKind::none; }
  bool is_wait(NodeIndex i) const { return op(i).effect == Effect::wait; }
  bool is_product(NodeIndex i) const { return op(i).is_heavy(); }

  // Returns the storage that the node's first result may reuse if the node is the last to touch it.
  ValueId reusable(NodeIndex i) const {
    const int argument = op(i).overwritten == 1 ? 0 : op(i).reuses;
    if (argument < 0 || node(i).results.empty()) return kNoValue;
    const ValueId reused = operand(node(i), argument);
    if (reused == kNoValue) return kNoValue;
    const ValueId result = node(i).results[0], storage = root(reused);
    const bool may =
        root(result) == result && bytes(storage) > 0 && may_stand_in(graph_, result, reused, storage);
    return may ? storage : kNoValue;
  }

 private:
  void add_node(NodeIndex i) {
    std::vector<ValueId>& touched = touched_[i];
    const auto touch = [&](ValueId id) { touched.push_back(root(id)); };
    for_each_operand(node(i), touch);
    if (is_wait(i))  // the collective's operands are live until its wait
      for_each_operand(node(maker(std::get<Use>(node(i).args[0]).value)), touch);
    const std::vector<ValueId>& results = node(i).results;
    const auto* new_results = argument<UseList>(node(i), static_cast<std::size_t>(op(i).makes_for));
    // An optimizer overwrites its state.
    const std::size_t overwritten =
        op(i).kind != OpKind::optimizer
            ? 0
            : results.size() - (new_results == nullptr ? 0 : new_results->values.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      const ValueId id = results[k];
      touch(id);
      if (root(id) == id && !graph_.value(id).on_host && k >= overwritten)
        bytes_[id] = planned_bytes(graph_.value(id).type, MemoryNeeds{}.alignment);
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  }

  const Graph& graph_;
  IdMap<const Op*> ops_;  // by node
  IdMap<ValueId> roots_;
  DefUse def_use_;
  IdMap<NodeIndex> last_;  // by root
  IdMap<std::int64_t> bytes_;
  IdMap<std::vector<ValueId>> touched_;
};

// Packing a bucket frees as much as it takes, except for losses to alignment. Its place still
// matters, since both copies are live meanwhile.
constexpr double kAlmostNothing = 1.0 / 16;

// The nodes [begin, end) of the graph. All but waits may move.
struct MovableRange {
  NodeIndex begin = 0, end = 0;
  std::int64_t live_before = 0, live_after = 0;
  std::int64_t peak = 0;         // in the graph's order
  std::int64_t better_peak = 0;  // of `better`, or `peak` without one
  Order better;
};

class Reorderer {
 public:
  explicit Reorderer(const Graph& graph)
      : graph_(graph),
        storages_(graph),
        left_(graph.values.size(), 0),
        touch_(graph.values.size()),
        read_(graph.values.size()),
        place_(graph.nodes.size()) {}

  // Returns a better order of the whole graph, or nullopt.
  std::optional<Order> run() {
    find_ranges();
    std::int64_t reachable = 0;
    for (const MovableRange& range : ranges_) reachable = std::max(reachable, range.better_peak);
    Order order(graph_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    bool changed = false;
    for (const MovableRange& range : ranges_) {
      if (range.peak <= reachable) continue;
      std::copy(range.better.begin(), range.better.end(), order.begin() + range.begin);
      changed = true;
    }
    return changed ? std::optional(std::move(order)) : std::nullopt;
  }

 private:
  bool stays(NodeIndex i) const {
    const Node& node = graph_.nodes[i];
    const Effect effect = storages_.op(i).effect;
    return node.results.empty() || (effect != Effect::none && effect != Effect::wait) ||
           std::any_of(node.results.begin(), node.results.end(),
                       [&](ValueId id) { return graph_.value(id).writes != kNoValue; });
  }

  void find_ranges() {
    const NodeIndex count = graph_.node_count();
    std::int64_t live = 0;
    for (NodeIndex begin = 0; begin < count;) {
      NodeIndex end = begin + 1;
      if (!stays(begin))
        while (end < count && graph_.nodes[end].phase == graph_.nodes[begin].phase && !stays(end)) ++end;
      ranges_.push_back({.begin = begin, .end = end, .live_before = live, .better = {}});
      improve(ranges_.back());
      live = ranges_.back().live_after;
      begin = end;
    }
  }

  void improve(MovableRange& range) {
    Order order(static_cast<std::size_t>(range.end - range.begin));
    std::iota(order.begin(), order.end(), range.begin);
    range.peak = range.better_peak = peak_of(order, range);
    if (order.size() < 2) return;
    const Order up = moved_up(order, range);
    for (const Order& candidate : {moved_down(up, range, 0.0), up, moved_down(up, range, kAlmostNothing)}) {
      const std::int64_t peak = peak_of(candidate, range);
      if (peak >= range.better_peak) continue;
      range.better_peak = peak;
      range.better = candidate;
    }
  }

  // Returns the peak of live bytes. Also sets the live bytes at the end, which no order changes.
  std::int64_t peak_of(const Order& order, MovableRange& range) {
    for (NodeIndex i : order)
      for (ValueId root : storages_.touched(i)) ++left_[root];
    std::int64_t live = range.live_before, peak = live;
    for (NodeIndex i : order) {
      const ValueId reused = dying_reusable(i, range);
      live += taken_bytes(i, reused);
      peak = std::max(peak, live);
      for (ValueId root : storages_.touched(i))
        if (--left_[root] == 0 && root != reused && storages_.dies_before(root, range.end))
          live -= storages_.bytes(root);
    }
    range.live_after = live;
    return peak;
  }
  // Returns the bytes that the results of node `i` take, one of which may reuse live memory.
  std::int64_t taken_bytes(NodeIndex i, ValueId reused) const {
    return storages_.made_bytes(i) - (reused == kNoValue ? 0 : storages_.bytes(reused));
  }
  ValueId dying_reusable(NodeIndex i, const MovableRange& range) const {
    const ValueId storage = storages_.reusable(i);
    const bool dies = storage != kNoValue && left_[storage] == 1 && storages_.dies_before(storage, range.end);
    return dies ? storage : kNoValue;
  }

  // Moves nodes up, from first to last: after their operands, and after as many other readers of
  // the operands as are needed to free more than the node takes. Views move with them.
  Order moved_up(const Order& order, const MovableRange& range) {
    constexpr Place kStart{-1, 0};
    // Numbers of nodes moved after the start and after each node.
    IdMap<NodeIndex> behind(order.size() + 1, 0);
    for (NodeIndex i : order)
      for (ValueId root : storages_.touched(i)) {
        ++left_[root];
        touch_[root] = kStart;
      }
    for (std::size_t k = 0; k < order.size(); ++k) {
      const NodeIndex i = order[k];
      Place target = kStart;
      for_each_operand(storages_.node(i), [&](ValueId id) {
        if (storages_.maker(id) >= range.begin) target = std::max(target, place_[storages_.maker(id)]);
      });
      const bool gains = finds_gain(i, range, target);
      const bool moves = (gains || storages_.is_view(i)) && !storages_.is_wait(i);
      place_[i] =
          moves ? Place{target.index, ++behind[target.index + 1]} : Place{static_cast<NodeIndex>(k), 0};
      for (ValueId root : storages_.touched(i)) touch_[root] = std::max(touch_[root], place_[i]);
    }
    return sorted(order);
  }

  // Returns true if node `i` frees more than it takes at some place from `target` on, and sets
  // `target` to the first such place. Counts the node as placed.
  bool finds_gain(NodeIndex i, const MovableRange& range, Place& target) {
    const ValueId reused = dying_reusable(i, range);
    std::int64_t gain = -taken_bytes(i, reused);
    Place first = reused == kNoValue ? target : std::max(target, touch_[reused]);
    std::vector<std::pair<Place, std::int64_t>> freed;
    for (ValueId root : storages_.touched(i))
      if (--left_[root] == 0 && root != reused && !storages_.made_by(i, root) &&
          storages_.dies_before(root, range.end))
        freed.emplace_back(touch_[root], storages_.bytes(root));
    std::sort(freed.begin(), freed.end());
    for (const auto& [behind, bytes] : freed) {
      first = std::max(first, behind);
      gain += bytes;
      if (gain <= 0) continue;
      target = first;
      return true;
    }
    return false;
  }

  // Moves nodes down, from last to first: right before their first reader, unless their operands
  // would then live longer, by more bytes than the share `loss` of their results. Views move
  // with them.
  Order moved_down(const Order& order, const MovableRange& range, double loss) {
    const Place end{static_cast<NodeIndex>(order.size()), 0};
    IdMap<NodeIndex> before(order.size() + 1, 0);
    for (NodeIndex i : order) {
      for (ValueId root : storages_.touched(i)) touch_[root] = {-1, 0};
      for (ValueId id : storages_.node(i).results) read_[id] = end;
    }
    for (std::size_t k = order.size(); k-- > 0;) {
      const NodeIndex i = order[k];
      Place target = end;
      bool lives_on = false;  // has a reader
      for (ValueId id : storages_.node(i).results) {
        target = std::min(target, read_[id]);
        lives_on |= read_[id] != end || !storages_.dies_before(storages_.root(id), range.end);
      }
      std::int64_t gain = storages_.made_bytes(i);
      for (ValueId root : storages_.touched(i))
        if (!storages_.made_by(i, root) && storages_.dies_before(root, range.end) && touch_[root] < target)
          gain -= storages_.bytes(root);
      const auto result_bytes = static_cast<double>(storages_.made_bytes(i));
      const bool gains = result_bytes > 0 && static_cast<double>(gain) > -loss * result_bytes;
      const bool moves =
          (gains || storages_.is_view(i)) && !storages_.is_wait(i) && !storages_.is_product(i) && lives_on;
      place_[i] = moves ? Place{target.index, -++before[target.index]} : Place{static_cast<NodeIndex>(k), 0};
      for (ValueId root : storages_.touched(i)) touch_[root] = std::max(touch_[root], place_[i]);
      for_each_operand(storages_.node(i), [&](ValueId id) { read_[id] = std::min(read_[id], place_[i]); });
    }
    return sorted(order);
  }

  Order sorted(Order order) const {
    std::sort(order.begin(), order.end(), [&](NodeIndex a, NodeIndex b) { return place_[a] < place_[b]; });
    return order;
  }

  const Graph& graph_;
  Storages storages_;
  std::vector<MovableRange> ranges_;
  // State of the current range.
  IdMap<NodeIndex> left_;  // by root: number of nodes that will still touch it
  IdMap<Place> touch_;     // by root: the last placed node that touches it
  IdMap<Place> read_;      // by value: the first placed node that reads it
  IdMap<Place> place_;     // by node: its place in the current order
};

void apply_order(Graph& graph, const Order& order) {
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (NodeIndex i : order) nodes.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(nodes);
}
Order inverse(const Order& order) {
  Order back(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) back[order[k]] = static_cast<NodeIndex>(k);
  return back;
}

// Plans the graph after reinplace and undoes reinplace, which changes only ops and marks. That is
// cheaper than a copy of the graph.
MemoryPlan final_plan(Graph& graph, const CompileOptions& options) {
  std::vector<std::pair<std::size_t, std::string>> ops;
  std::vector<ValueId> writes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (facts(graph.nodes[i].op).overwritten > 0) ops.emplace_back(i, graph.nodes[i].op);
  for (const Value& value : graph.values) writes.push_back(value.writes);
  reinplace(graph, options);
  MemoryPlan plan = plan_memory(graph, memory_needs(options.device));
  for (auto& [i, op] : ops) graph.nodes[i].op = std::move(op);
  for (std::size_t i = 0; i < writes.size(); ++i) graph.values[i].writes = writes[i];
  return plan;
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

}  // namespace

Notes reorder_for_memory(Graph& graph, const CompileOptions& options) {
  const std::optional<Order> order = Reorderer(graph).run();
  if (!order) return {"found no order with a lower peak"};
  const MemoryPlan before = final_plan(graph, options);
  apply_order(graph, *order);
  const MemoryPlan after = final_plan(graph, options);
  if (after.live_peak_bytes < before.live_peak_bytes && after.arena_bytes <= before.arena_bytes)
    return {fmt::format("lowered the peak from {:.1f} to {:.1f} MiB", mib(before.live_peak_bytes),
                        mib(after.live_peak_bytes))};
  apply_order(graph, inverse(*order));
  return {"found no order with a lower peak"};
}

}  // namespace rondo::ir

// Computes nodes that a collective of activations does not need while the collective runs.
//
//   gradient of the input              gradient of the input
//   gradient of the weight             start: sum it over the ranks
//   start: sum it over the ranks   ->  gradient of the weight
//   wait                               wait
//   what follows                       what follows
//
// Ranks that share a layer exchange activations several times in it, and the next op waits for each
// exchange. Between two such starts are ops that the second start does not need, mainly the
// products of weight gradients. As many of them as take the time of the exchange move after its
// start. Of the remaining ones, as many as the next exchange takes move after that one, so that no
// tensor is kept longer.
#include <algorithm>

#include "compiler/analysis/bucketing.h"
#include "compiler/analysis/parameters.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {
namespace {

class ActivationOverlap {
 public:
  ActivationOverlap(Graph& graph, const DeviceModel& device)
      : graph_(graph), device_(device), waits_(waits_of_starts(graph)), places_(present_places(graph)) {}

  std::int64_t run() {
    const std::vector<NodeIndex> starts = activation_starts();
    NodeIndex from = 0;
    std::vector<NodeIndex> left;  // of the previous range, not yet after a start
    for (const NodeIndex start : starts) {
      if (graph_.nodes[from].phase != graph_.nodes[start].phase) {
        from = first_of_phase(graph_.nodes[start].phase);
        left.clear();
      }
      const IdMap<bool> needed = needed_by(start, left.empty() ? from : left.front());
      std::erase_if(left, [&](NodeIndex i) { return needed[i]; });
      std::vector<NodeIndex> fresh;
      for (NodeIndex i = from; i < start; ++i)
        if (!needed[i] && facts(graph_.nodes[i].op).effect == Effect::none) fresh.push_back(i);
      double seconds = seconds_of(start);
      seconds -= move_behind(start, left, seconds);
      move_behind(start, fresh, seconds);
      left = std::move(fresh);
      from = start + 1;
    }
    if (moved_ > 0) reorder(graph_, places_);
    return moved_;
  }

 private:
  // Returns the awaited collectives that are not of parameters.
  std::vector<NodeIndex> activation_starts() const {
    const IdMap<std::int32_t> parameters = parameters_of_nodes(graph_);
    std::vector<NodeIndex> starts;
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.nodes[i];
      if (facts(node.op).effect == Effect::collective_start && waits_[i] >= 0 && parameters[i] < 0 &&
          !made_by_bucketing(node) && node.phase != Phase::update)
        starts.push_back(i);
    }
    return starts;
  }

  NodeIndex first_of_phase(Phase phase) const {
    const auto first = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                    [&](const Node& node) { return node.phase == phase; });
    return static_cast<NodeIndex>(first - graph_.nodes.begin());
  }

  // Returns for each node from `from` to `start` whether `start` depends on it.
  IdMap<bool> needed_by(NodeIndex start, NodeIndex from) {
    IdMap<bool> needed(static_cast<std::size_t>(start) + 1, false);
    if (reads_.empty()) reads_.resize(graph_.values.size(), 0);
    ++round_;
    const auto mark_reads = [&](const Node& node) {
      for_each_operand(node, [&](ValueId id) { reads_[id] = round_; });
    };
    mark_reads(graph_.nodes[start]);
    for (NodeIndex i = start; i-- > from;) {
      const Node& node = graph_.nodes[i];
      needed[i] = std::any_of(node.results.begin(), node.results.end(),
                              [&](ValueId id) { return reads_[id] == round_; });
      if (needed[i]) mark_reads(node);
    }
    return needed;
  }

  // Moves nodes from the end of `nodes`, so that their readers come along, until they fill
  // `seconds`. Returns their time. Cheap ops alone are not moved.
  double move_behind(NodeIndex start, std::vector<NodeIndex>& nodes, double seconds) {
    double filled = 0, worth_s = 0;
    std::size_t worth = nodes.size();  // the first to move
    for (std::size_t k = nodes.size(); k-- > 0 && filled < seconds;) {
      filled += node_cost(graph_, graph_.nodes[nodes[k]], device_).seconds;
      if (!facts(graph_.nodes[nodes[k]].op).is_heavy()) continue;
      worth = k;
      worth_s = filled;
    }
    if (worth == nodes.size()) return 0;
    for (std::size_t k = worth; k < nodes.size(); ++k) places_[nodes[k]] = {start, 1};
    Place& wait = places_[waits_[start]];
    wait = std::max(wait, {start, 2});
    moved_ += static_cast<std::int64_t>(nodes.size() - worth);
    nodes.resize(worth);
    return worth_s;
  }

  double seconds_of(NodeIndex start) const {
    const Node& node = graph_.nodes[start];
    return collective_seconds(graph_, node, group_shape(graph_, *collective_of(node)), device_);
  }

  Graph& graph_;
  const DeviceModel& device_;
  IdMap<NodeIndex> waits_;
  IdMap<Place> places_;
  IdMap<std::int64_t> reads_;  // by value: the last round that reads it
  std::int64_t round_ = 0, moved_ = 0;
};

}  // namespace

Notes overlap_activations(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  const std::int64_t moved = ActivationOverlap(graph, device_model_for(options.device)).run();
  if (moved == 0) return {};
  return {std::to_string(moved) + " ops overlap collectives of activations that do not need them"};
}

}  // namespace rondo::ir

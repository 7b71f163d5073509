// Offloads saved activations to host memory until the backward.
//
// Before:
//   forward layers.0
//     %5 = aten.mm.default(%3, %4)
//   forward layers.2
//     ...
//   backward layers.0
//     %9 = aten.mul.Tensor(%8, %5)
// After:
//   forward layers.0
//     %5 = aten.mm.default(%3, %4)
//     %20: host = rondo.offload.default(%5)
//   forward layers.2
//     %21: host views %20 = rondo.wait_transfer.default(%20)
//   backward layers.1
//     %22 = rondo.reload.default(%21)
//   backward layers.0
//     %23 views %22 = rondo.wait_transfer.default(%22)
//     %9 = aten.mul.Tensor(%8, %23)
//
// An offload starts at the maker of its value. Its wait comes some blocks later, and the reload
// starts some blocks ahead of its reader, so that both overlap compute
// (CompileOptions::cpu_offload_*). Views that the backward reads are recreated over the reloaded
// value. Excluded are values below 4 KiB, values with gaps in memory, values of the last block,
// which the backward needs at once, and results of collectives.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/analysis/forward_values.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kSmallest = 4096;  // bytes
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

class Offloader {
 public:
  Offloader(Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        blocks_(blocks_of_nodes(graph)),
        def_use_(graph),
        forward_begin_(graph.blocks.size(), -1),
        backward_begin_(graph.blocks.size(), -1),
        places_(present_places(graph)) {
    for (NodeIndex i = graph.node_count(); i-- > 0;) {
      const Phase phase = graph.nodes[i].phase;
      if (phase == Phase::backward) backward_ = i;
      if (blocks_[i] < 0 || phase == Phase::update) continue;
      auto& begin = phase == Phase::forward ? forward_begin_ : backward_begin_;
      begin[blocks_[i]] = i;
    }
  }

  Notes run() {
    const RecomputePlan plan = plan_recompute(graph_, IdMap<bool>(graph_.nodes.size(), false));
    std::vector<ValueId> offloaded = choose(plan.saved);
    std::int64_t bytes = 0;
    for (ValueId value : offloaded) {
      bytes += storage_bytes(graph_.value(value).type);
      offload_and_reload(value);
    }
    read_reloaded();
    add_and_reorder(graph_, std::move(places_), std::move(new_nodes_), new_places_);
    return {fmt::format("{} of {} saved activations are offloaded to host memory: {:.1f} of {:.1f} MiB",
                        offloaded.size(), plan.saved.size(), static_cast<double>(bytes) / (1 << 20),
                        static_cast<double>(plan.saved_bytes) / (1 << 20))};
  }

 private:
  std::int32_t block(ValueId value) const { return blocks_[def_use_.maker(value)]; }

  // Returns the values to offload: largest first, then the earliest, which waits the longest.
  std::vector<ValueId> choose(std::vector<ValueId> candidates) const {
    const auto last = static_cast<std::int32_t>(graph_.blocks.size()) - 1;
    std::erase_if(candidates, [&](ValueId value) {
      const TensorType& type = graph_.value(value).type;
      const Node& node = graph_.nodes[def_use_.maker(value)];
      return storage_bytes(type) < kSmallest ||
             storage_bytes(type) != element_count(type) * dtype_bytes(type.dtype) || block(value) == last ||
             facts(node.op).effect != Effect::none;
    });
    std::sort(candidates.begin(), candidates.end(), [&](ValueId a, ValueId b) {
      const std::int64_t first = storage_bytes(graph_.value(a).type),
                         second = storage_bytes(graph_.value(b).type);
      return first != second ? first > second : a < b;
    });
    auto left = static_cast<std::int64_t>(options_.cpu_offload_budget_gib * kGib);
    std::erase_if(candidates, [&](ValueId value) {
      const std::int64_t bytes = storage_bytes(graph_.value(value).type);
      if (bytes > left) return true;
      left -= bytes;
      return false;
    });
    return candidates;
  }

  ValueId emit(Place place, const Node& maker_node, Phase phase, std::string_view op, ValueId operand,
               bool waits, bool on_host) {
    Value value{.type = graph_.value(operand).type, .on_host = on_host};
    if (waits) value.views = operand;
    Node node{.op = std::string(op),
              .args = {Use{operand}},
              .results = {graph_.add_value(std::move(value))},
              .phase = phase,
              .module = maker_node.module,
              .origin = "offload"};
    const ValueId result = node.results[0];
    new_nodes_.push_back(std::move(node));
    new_places_.push_back(place);
    return result;
  }

  void offload_and_reload(ValueId value) {
    const NodeIndex maker = def_use_.maker(value);
    const Node maker_node = graph_.nodes[maker];
    const ValueId offloaded = emit({maker, 1}, maker_node, Phase::forward, kOffload, value, false, true);
    const ValueId on_host =
        emit(wait_place(block(value)), maker_node, Phase::forward, kWaitTransfer, offloaded, true, true);
    const ValueId reloaded =
        emit(reload_place(block(value)), maker_node, Phase::backward, kReload, on_host, false, false);
    reloaded_.emplace_back(value, reloaded);
  }

  Place wait_place(std::int32_t block) const {
    const std::int64_t later = block + 1 + options_.cpu_offload_defer_n_layers;
    const bool inside = later < static_cast<std::int64_t>(graph_.blocks.size());
    if (inside && forward_begin_[later] >= 0) return {forward_begin_[later], -1};
    return {backward_ - 1, 1};
  }
  Place reload_place(std::int32_t block) const {
    const std::int64_t ahead = block + options_.cpu_offload_prefetch_n_layers;
    const bool inside = ahead < static_cast<std::int64_t>(graph_.blocks.size());
    if (inside && backward_begin_[ahead] >= 0) return {backward_begin_[ahead], -1};
    return {backward_, -1};
  }

  // Makes backward readers of an offloaded storage read the reloaded value, or the same view of it.
  void read_reloaded() {
    IdMap<ValueId> reloaded(graph_.values.size(), kNoValue), stands_for(graph_.values.size(), kNoValue);
    for (const auto& [value, reload] : reloaded_) reloaded[value] = reload;
    const IdMap<ValueId> roots = storage_roots(graph_);
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      if (!is_backward(graph_.nodes[i])) continue;
      const Place before{i, -1};
      Node node = graph_.nodes[i];
      for_each_operand(node, [&](ValueId& id) {
        if (static_cast<std::size_t>(id) >= roots.size()) return;
        const ValueId root = roots[id];
        if (reloaded[root] != kNoValue && is_from_forward(id))
          id = stand_in(id, before, reloaded, stands_for);
      });
      for (ValueId result : node.results)
        if (ValueId& source = graph_.value(result).views;
            source != kNoValue && stands_for[source] != kNoValue)
          source = stands_for[source];
      graph_.nodes[i] = std::move(node);
    }
  }
  bool is_from_forward(ValueId id) const {
    const NodeIndex i = def_use_.maker(id);
    return i != kNoNode && graph_.nodes[i].phase == Phase::forward;
  }

  // Returns the backward value with the content of the forward value `id`, created right before its
  // first reader.
  ValueId stand_in(ValueId id, Place before, const IdMap<ValueId>& reloaded, IdMap<ValueId>& stands_for) {
    ValueId& known = stands_for[id];
    if (known != kNoValue) return known;
    const Node maker = graph_.nodes[def_use_.maker(id)];
    if (const ValueId reload = reloaded[id]; reload != kNoValue)
      return known = emit(before, maker, Phase::backward, kWaitTransfer, reload, true, false);
    Node view = maker;
    view.phase = Phase::backward;
    view.origin = "offload";
    const ValueId source = stand_in(graph_.value(id).views, before, reloaded, stands_for);
    for_each_operand(view, [&](ValueId& operand) {
      if (operand == graph_.value(id).views) operand = source;
    });
    for (ValueId& result : view.results) {
      Value value = graph_.value(result);
      value.views = source;
      const ValueId copy = graph_.add_value(std::move(value));
      stands_for[result] = copy;
      result = copy;
    }
    new_nodes_.push_back(std::move(view));
    new_places_.push_back(before);
    return stands_for[id];
  }

  Graph& graph_;
  const CompileOptions& options_;
  IdMap<std::int32_t> blocks_;  // by node
  DefUse def_use_;
  IdMap<NodeIndex> forward_begin_, backward_begin_;  // by block: its first node in that phase
  NodeIndex backward_ = 0;                           // the first node of the backward
  IdMap<Place> places_;
  std::vector<std::pair<ValueId, ValueId>> reloaded_;  // an offloaded value, and its reload
  std::vector<Node> new_nodes_;
  std::vector<Place> new_places_;
};

}  // namespace

Notes offload(Graph& graph, const CompileOptions& options) {
  const bool has_backward = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_backward);
  if (options.memory_policy != MemoryPolicy::sac_and_offload || !has_backward) return unchanged();
  if (overwrites(graph)) return left_alone();
  return Offloader(graph, options).run();
}

}  // namespace rondo::ir

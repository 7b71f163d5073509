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
#include "compiler/analysis/transfers.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

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
        transfers_(graph, "offload"),
        reloaded_{.phase = Phase::backward,
                  .reloads = IdMap<ValueId>(graph.values.size(), kNoValue),
                  .stand_ins = IdMap<ValueId>(graph.values.size(), kNoValue)} {
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
    for (NodeIndex i = 0; i < graph_.node_count(); ++i)
      if (is_backward(graph_.nodes[i])) transfers_.read_reloaded(i, reloaded_);
    transfers_.finish(present_places(graph_));
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
      return !may_transfer(type) || block(value) == last || facts(node.op).effect != Effect::none;
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

  void offload_and_reload(ValueId value) {
    const NodeIndex maker = def_use_.maker(value);
    const std::string module = graph_.nodes[maker].module;
    const ValueId offloaded = transfers_.offload(value, {{maker, 1}, Phase::forward, module});
    const ValueId on_host = transfers_.wait(offloaded, {wait_place(block(value)), Phase::forward, module});
    reloaded_.reloads[value] =
        transfers_.reload(on_host, {reload_place(block(value)), Phase::backward, module});
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

  Graph& graph_;
  const CompileOptions& options_;
  IdMap<std::int32_t> blocks_;  // by node
  DefUse def_use_;
  IdMap<NodeIndex> forward_begin_, backward_begin_;  // by block: its first node in that phase
  NodeIndex backward_ = 0;                           // the first node of the backward
  Transfers transfers_;
  Reloaded reloaded_;
};

}  // namespace

Notes offload(Graph& graph, const CompileOptions& options) {
  const bool has_backward = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_backward);
  if (options.memory_policy != MemoryPolicy::sac_and_offload || !has_backward) return unchanged();
  if (overwrites(graph)) return left_alone();
  return Offloader(graph, options).run();
}

}  // namespace rondo::ir

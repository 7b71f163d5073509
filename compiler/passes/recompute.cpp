// Recomputes the forward values that the memory policy does not save.
//
//   forward layers.0                              forward layers.0
//     %5 = aten.silu.default(%4)                    %5 = aten.silu.default(%4)
//   backward layers.0                       ->    backward layers.0
//                                                   %8 = aten.silu.default(%4) by recompute
//     %7 = aten.mul.Tensor(%6, %5)                  %7 = aten.mul.Tensor(%6, %8)
//
// A copy comes right before the first backward node that needs it.
// compiler/analysis/memory_policy.h makes the decisions.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/analysis/forward_values.h"
#include "compiler/analysis/memory_policy.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr double kMib = 1 << 20;

class Recomputer {
 public:
  Recomputer(Graph& graph, const IdMap<bool>& recompute)
      : graph_(graph), recompute_(recompute), def_use_(graph), copies_(graph.values.size(), kNoValue) {}

  void run() {
    const IdMap<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(old.size() * 2);
    for (std::size_t i = 0; i < old.size(); ++i) {
      Node node = old[i];
      if (is_backward(node)) {
        for_each_operand(node, [&](ValueId id) { copy_maker(old, id); });
        redirect(node);
      }
      graph_.nodes.push_back(std::move(node));
    }
  }

 private:
  bool is_forward_value_to_copy(ValueId id) const {
    return def_use_.maker(id) != kNoNode && recompute_[def_use_.maker(id)];
  }

  // Appends copies of the maker of `id` and of its operands' makers, operands first.
  void copy_maker(const IdMap<Node>& old, ValueId id) {
    if (!is_forward_value_to_copy(id) || copies_[id] != kNoValue) return;
    Node copy = old[def_use_.maker(id)];
    for_each_operand(copy, [&](ValueId operand) { copy_maker(old, operand); });
    copy.phase = Phase::backward;
    copy.origin = "recompute";
    for (ValueId& result : copy.results) {
      Value value = graph_.value(result);
      if (value.views != kNoValue) value.views = copied(value.views);
      const ValueId copy_id = graph_.add_value(std::move(value));
      copies_[result] = copy_id;
      result = copy_id;
    }
    redirect(copy);
    graph_.nodes.push_back(std::move(copy));
  }

  ValueId copied(ValueId id) const {
    const bool is_new = static_cast<std::size_t>(id) >= copies_.size();
    return is_new || copies_[id] == kNoValue ? id : copies_[id];
  }
  void redirect(Node& node) {
    for_each_operand(node, [&](ValueId& id) { id = copied(id); });
    for (ValueId result : node.results)
      if (ValueId& source = graph_.value(result).views; source != kNoValue) source = copied(source);
  }

  Graph& graph_;
  const IdMap<bool>& recompute_;
  DefUse def_use_;
  IdMap<ValueId> copies_;  // by forward value: its copy in the backward
};

struct OpShare {
  int count = 0;
  double flops = 0;
  std::int64_t bytes = 0;
};
// Formats "28 aten.mm.default (5.3 MiB), ...", the most expensive first.
std::string list(const std::map<std::string, OpShare>& shares) {
  std::vector<std::pair<std::string, OpShare>> rows(shares.begin(), shares.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.flops, a.second.bytes) > std::pair(b.second.flops, b.second.bytes);
  });
  std::string text;
  for (std::size_t i = 0; i < rows.size() && i < 6; ++i)
    text += fmt::format("{}{} {} ({:.1f} MiB)", i > 0 ? ", " : "", rows[i].second.count, rows[i].first,
                        static_cast<double>(rows[i].second.bytes) / kMib);
  if (rows.size() > 6) text += fmt::format(", {} more kinds", rows.size() - 6);
  return text.empty() ? "nothing" : text;
}

// Reports the saved and the recomputed values, and their costs.
Notes table(const Graph& graph, const IdMap<bool>& recompute, MemoryPolicy policy) {
  const RecomputePlan plan = plan_recompute(graph, recompute);
  const DefUse def_use(graph);
  std::map<std::string, OpShare> saved, again;
  IdMap<bool> counted(graph.nodes.size(), false);
  for (ValueId root : plan.saved) {
    const NodeIndex i = def_use.maker(root);
    const Node& node = graph.nodes[i];
    OpShare& share = saved[node.op];
    share.count += counted[i] ? 0 : 1;
    share.flops += counted[i] ? 0 : flops(graph, node);
    share.bytes += storage_bytes(graph.value(root).type);
    counted[i] = true;
  }
  double again_flops = 0, all_flops = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    all_flops += flops(graph, node);
    if (!plan.again[i]) continue;
    again_flops += flops(graph, node);
    std::int64_t bytes = 0;
    for (ValueId id : node.results)
      if (graph.value(id).views == kNoValue) bytes += storage_bytes(graph.value(id).type);
    if (bytes == 0) continue;
    OpShare& share = again[node.op];
    ++share.count;
    share.flops += flops(graph, node);
    share.bytes += bytes;
  }
  return {
      fmt::format(
          "memory policy {}: the blocks save {:.1f} MiB for the backward, which recomputes {:.2f} of {:.2f} "
          "GFLOP",
          name_of(policy), static_cast<double>(plan.saved_bytes) / kMib, again_flops * 1e-9,
          all_flops * 1e-9),
      "  saved: " + list(saved), "  recomputed: " + list(again)};
}

}  // namespace

Notes recompute(Graph& graph, const CompileOptions& options) {
  const bool has_backward = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_backward);
  if (!has_backward) return unchanged();
  if (overwrites(graph)) return left_alone();
  const MemoryDecision decision = decide_memory(graph, options);
  Notes notes = table(graph, decision.recompute, options.memory_policy);
  notes.insert(notes.end(), decision.notes.begin(), decision.notes.end());
  Recomputer(graph, decision.recompute).run();
  return notes;
}

}  // namespace rondo::ir

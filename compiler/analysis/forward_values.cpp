// All queries use the root of a storage and not a value, so that reading a view counts as reading
// the storage. Views have no decision of their own: recompute_all_but() sweeps the forward once,
// and a view follows its operands. plan_recompute() then walks from the reads of the backward
// through the recomputed nodes and stops at saved values. So a node counts as recomputed only if
// the backward needs it.
#include "compiler/analysis/forward_values.h"

#include "compiler/analysis/parameters.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

bool makes_storage(const Graph& graph, const Node& node) {
  for (ValueId id : node.results)
    if (graph.value(id).views == kNoValue) return true;
  return false;
}

bool may_run_twice(const Graph& graph, const Node& node, const CompileOptions& options) {
  for (ValueId id : node.results)
    if (graph.value(id).writes != kNoValue) return false;
  return is_repeatable(node.op, options);
}

}  // namespace

bool is_repeatable(std::string_view op, const CompileOptions& options) {
  const Op& of_op = facts(op);
  if (of_op.effect == Effect::none || of_op.effect == Effect::wait) return true;
  if (!of_op.collective) return false;
  return of_op.collective->kind == CollectiveKind::all_gather ||
         (options.recompute_all_to_all && of_op.collective->kind == CollectiveKind::all_to_all);
}

ForwardValues::ForwardValues(const Graph& graph, const CompileOptions& options)
    : graph_(graph), blocks_(blocks_of_nodes(graph)), parameters_(parameters_of_nodes(graph)) {
  const NodeIndex count = graph.node_count();
  const IdMap<ValueId> roots = storage_roots(graph);
  const DefUse def_use(graph);
  for (ValueId root : roots) producer_.push_back(def_use.maker(root));

  leaves_.assign(graph.nodes.size(), false);
  for (NodeIndex i = 0; i < count; ++i)
    for_each_operand(graph.nodes[i], [&](ValueId id) {
      const NodeIndex source = producer_[id];
      if (source < 0 || is_backward(graph.nodes[i])) return;
      if (graph.nodes[i].phase != Phase::forward || graph.nodes[i].op == kReturn ||
          blocks_[i] != blocks_[source])
        leaves_[source] = true;
    });

  const IdMap<bool> keeps_gathered = kept_gathered(graph, options.reshard_after_forward);
  gathered_again_.assign(graph.nodes.size(), false);
  optional_.assign(graph.nodes.size(), false);
  of_block_.resize(graph.blocks.size());
  for (NodeIndex i = 0; i < count; ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase != Phase::forward || !makes_storage(graph, node)) continue;
    if (parameters_[i] >= 0) {
      gathered_again_[i] = !keeps_gathered[parameters_[i]] && may_run_twice(graph, node, options);
    } else if (blocks_[i] >= 0) {
      optional_[i] = !leaves_[i] && may_run_twice(graph, node, options);
      of_block_[blocks_[i]].push_back(i);
    }
  }
}

std::int64_t ForwardValues::bytes(NodeIndex node) const {
  std::int64_t total = 0;
  for (ValueId id : graph_.nodes[node].results)
    if (graph_.value(id).views == kNoValue) total += storage_bytes(graph_.value(id).type);
  return total;
}

IdMap<bool> ForwardValues::producers_read_by_backward() const {
  IdMap<bool> read(graph_.nodes.size(), false);
  for (const Node& node : graph_.nodes) {
    if (!is_backward(node)) continue;
    for_each_operand(node, [&](ValueId id) {
      if (producer(id) >= 0) read[producer(id)] = true;
    });
  }
  return read;
}

IdMap<bool> ForwardValues::recompute_all_but(const IdMap<bool>& keep) const {
  IdMap<bool> recompute(graph_.nodes.size(), false);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.phase != Phase::forward) break;
    if (makes_storage(graph_, node)) {
      recompute[i] = gathered_again_[i] || (optional_[i] && !keep[i]);
      continue;
    }
    for_each_operand(node, [&](ValueId id) {
      if (producer(id) >= 0) recompute[i] = recompute[i] || recompute[producer(id)];
    });
  }
  return recompute;
}

RecomputePlanner::RecomputePlanner(const Graph& graph)
    : graph_(graph), def_use_(graph), roots_(storage_roots(graph)) {
  const IdMap<std::int32_t> blocks = blocks_of_nodes(graph), parameters = parameters_of_nodes(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    is_of_block_.push_back(blocks[i] >= 0 && parameters[i] < 0);
}

RecomputePlan RecomputePlanner::plan(const IdMap<bool>& recompute) const {
  RecomputePlan plan{IdMap<bool>(graph_.nodes.size(), false), {}, 0};
  IdMap<bool> seen(graph_.values.size(), false);
  std::vector<ValueId> open;
  const auto need = [&](ValueId id) {
    if (!seen[id]) open.push_back(id);
    seen[id] = true;
  };
  const auto save = [&](ValueId root) {
    const NodeIndex node = def_use_.maker(root);
    if (node < 0 || !is_of_block_[node]) return;
    plan.saved.push_back(root);
    plan.saved_bytes += storage_bytes(graph_.value(root).type);
  };
  IdMap<bool> saved(graph_.values.size(), false);
  for (const Node& reader : graph_.nodes) {
    if (!is_backward(reader)) continue;
    for_each_operand(reader, need);
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const NodeIndex node = def_use_.maker(id);
      if (node < 0 || graph_.nodes[node].phase != Phase::forward) continue;
      if (recompute[node]) {
        plan.again[node] = true;
        for_each_operand(graph_.nodes[node], need);
      } else if (const ValueId root = roots_[id]; !saved[root]) {
        saved[root] = true;
        save(root);
      }
    }
  }
  return plan;
}

RecomputePlan plan_recompute(const Graph& graph, const IdMap<bool>& recompute) {
  return RecomputePlanner(graph).plan(recompute);
}

}  // namespace rondo::ir

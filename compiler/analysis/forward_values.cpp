#include "compiler/analysis/forward_values.h"

#include "compiler/analysis/parameters.h"
#include "compiler/ir/op_facts.h"

namespace rondo::ir {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

bool makes_storage(const Graph& graph, const Node& node) {
  for (ValueId id : node.results)
    if (graph.value(id).views == kNoValue) return true;
  return false;
}

// Whether computing a node twice gives the same and harms nobody.
bool is_repeatable(const Graph& graph, const Node& node) {
  for (ValueId id : node.results)
    if (graph.value(id).writes != kNoValue) return false;
  const Effect effect = facts(node.op).effect;
  return effect == Effect::none || effect == Effect::wait ||
         node.op == "_c10d_functional.all_gather_into_tensor.default";
}

}  // namespace

ForwardValues::ForwardValues(const Graph& graph, std::string_view reshard_after_forward)
    : graph_(graph), blocks_(blocks_of_nodes(graph)), parameters_(parameters_of_nodes(graph)) {
  const std::size_t count = graph.nodes.size();
  const std::vector<ValueId> roots = storage_roots(graph);
  const std::vector<std::int32_t> made = defining_nodes(graph);
  for (ValueId root : roots) producer_.push_back(made[at(root)]);

  leaves_.assign(count, false);
  for (std::size_t i = 0; i < count; ++i)
    for_each_operand(graph.nodes[i], [&](ValueId id) {
      const std::int32_t source = producer_[at(id)];
      if (source < 0 || is_backward(graph.nodes[i])) return;
      if (graph.nodes[i].phase != Phase::forward || graph.nodes[i].op == kReturn ||
          blocks_[i] != blocks_[static_cast<std::size_t>(source)])
        leaves_[static_cast<std::size_t>(source)] = true;
    });

  const std::vector<bool> kept = kept_gathered(graph, reshard_after_forward);
  gathered_again_.assign(count, false);
  optional_.assign(count, false);
  of_block_.resize(graph.blocks.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase != Phase::forward || !makes_storage(graph, node)) continue;
    if (parameters_[i] >= 0) {
      gathered_again_[i] = !kept[static_cast<std::size_t>(parameters_[i])] && is_repeatable(graph, node);
    } else if (blocks_[i] >= 0) {
      optional_[i] = !leaves_[i] && is_repeatable(graph, node);
      of_block_[static_cast<std::size_t>(blocks_[i])].push_back(i);
    }
  }
}

std::int64_t ForwardValues::bytes(std::size_t node) const {
  std::int64_t total = 0;
  for (ValueId id : graph_.nodes[node].results)
    if (graph_.value(id).views == kNoValue) total += storage_bytes(graph_.value(id).type);
  return total;
}

std::vector<bool> ForwardValues::producers_read_by_backward() const {
  std::vector<bool> read(graph_.nodes.size(), false);
  for (const Node& node : graph_.nodes) {
    if (!is_backward(node)) continue;
    for_each_operand(node, [&](ValueId id) {
      if (producer(id) >= 0) read[static_cast<std::size_t>(producer(id))] = true;
    });
  }
  return read;
}

std::vector<bool> ForwardValues::recompute_all_but(const std::vector<bool>& keep) const {
  std::vector<bool> recompute(graph_.nodes.size(), false);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.phase != Phase::forward) break;
    if (makes_storage(graph_, node)) {
      recompute[i] = gathered_again_[i] || (optional_[i] && !keep[i]);
      continue;
    }
    for_each_operand(node, [&](ValueId id) {
      if (producer(id) >= 0) recompute[i] = recompute[i] || recompute[static_cast<std::size_t>(producer(id))];
    });
  }
  return recompute;
}

RecomputePlan plan_recompute(const Graph& graph, const std::vector<bool>& recompute) {
  RecomputePlan plan{std::vector<bool>(graph.nodes.size(), false), {}, 0};
  const std::vector<std::int32_t> made = defining_nodes(graph);
  const std::vector<ValueId> roots = storage_roots(graph);
  const std::vector<std::int32_t> blocks = blocks_of_nodes(graph), parameters = parameters_of_nodes(graph);
  std::vector<bool> seen(graph.values.size(), false);
  std::vector<ValueId> open;
  const auto need = [&](ValueId id) {
    if (!seen[at(id)]) open.push_back(id);
    seen[at(id)] = true;
  };
  const auto keep = [&](ValueId root) {
    const std::int32_t node = made[at(root)];
    if (node < 0 || blocks[static_cast<std::size_t>(node)] < 0 ||
        parameters[static_cast<std::size_t>(node)] >= 0)
      return;
    plan.kept.push_back(root);
    plan.kept_bytes += storage_bytes(graph.value(root).type);
  };
  std::vector<bool> kept(graph.values.size(), false);
  for (const Node& reader : graph.nodes) {
    if (!is_backward(reader)) continue;
    for_each_operand(reader, need);
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const std::int32_t node = made[at(id)];
      if (node < 0 || graph.nodes[static_cast<std::size_t>(node)].phase != Phase::forward) continue;
      if (recompute[static_cast<std::size_t>(node)]) {
        plan.again[static_cast<std::size_t>(node)] = true;
        for_each_operand(graph.nodes[static_cast<std::size_t>(node)], need);
      } else if (const ValueId root = roots[at(id)]; !kept[at(root)]) {
        kept[at(root)] = true;
        keep(root);
      }
    }
  }
  return plan;
}

}  // namespace rondo::ir

// Removes a collective whose result is never used: start, wait, and the readers of the wait.
//
//   %1: f32[8] = _c10d_functional.all_reduce.default(%0, "sum", "dp")    gone
//   %2: f32[8] views %1 = _c10d_functional.wait_tensor.default(%1)       gone
//   %3: f32[4] views %2 = aten.slice.Tensor(%2, 0, 0, 4, 1)              gone, without readers
//
// A rank that skipped a collective of the other ranks would hang them. It cannot: the decision
// depends on the graph alone, and ranks compare the collective sequences of their final graphs
// before the first step. A difference ends the run with a message (parallel/groups/groups.h).
// Operands of removed collectives are dead code.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

// True for both ends of a collective, and of a transfer between memories, which is removed with
// its use.
bool is_start_or_wait(const Node& node) {
  const Effect effect = facts(node.op).effect;
  return runs_in_background(effect) || effect == Effect::wait;
}

// True for a node with an effect beyond its results.
bool acts(const Graph& graph, const Node& node) {
  if (is_start_or_wait(node)) return false;
  return node.results.empty() || facts(node.op).effect != Effect::none ||
         std::any_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).writes != kNoValue; });
}

}  // namespace

Notes remove_dead_collectives(Graph& graph, const CompileOptions&) {
  const IdMap<bool> lives = living_nodes(graph, [&](const Node& node) { return acts(graph, node); });
  IdMap<bool> keep(graph.nodes.size(), true), removed(graph.values.size(), false);
  int dropped = 0;
  bool changed = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (lives[i]) continue;
    bool remove = is_start_or_wait(node);
    for_each_operand(node, [&](ValueId id) { remove |= removed[id]; });
    if (!remove) continue;
    keep[i] = false;
    changed = true;
    dropped += facts(node.op).effect == Effect::collective_start;
    for (ValueId id : node.results) removed[id] = true;
  }
  if (!changed) return unchanged();
  keep_nodes(graph, keep);
  if (dropped == 0) return {};
  return {fmt::format("removed {} collectives without readers", dropped)};
}

}  // namespace rondo::ir

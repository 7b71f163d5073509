// A collective whose result reaches nothing that counts is dropped: start, wait, and what still reads the
// wait.
//
//   %1: f32[8] = _c10d_functional.all_reduce.default(%0, "sum", "dp")    gone
//   %2: f32[8] views %1 = _c10d_functional.wait_tensor.default(%1)       gone
//   %3: f32[4] views %2 = aten.slice.Tensor(%2, 0, 0, 4, 1)              gone, if nobody reads it
//
// A rank that leaves out what the others take part in would hang them. It cannot: the decision follows from
// the graph alone, and ranks compare the collective sequences of their final graphs before the first step; a
// difference ends the run with a message (parallel/groups/groups.h). What only fed the collective is dead
// code now.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

// Of a collective, or of a transfer between memories, which goes with what it was for.
bool is_start_or_wait(const Node& node) {
  const Effect effect = facts(node.op).effect;
  return runs_in_background(effect) || effect == Effect::wait;
}

// Does something that counts even if nobody reads its results.
bool acts(const Graph& graph, const Node& node) {
  if (is_start_or_wait(node)) return false;
  return node.results.empty() || facts(node.op).effect != Effect::none ||
         std::any_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).writes != kNoValue; });
}

}  // namespace

Notes remove_dead_collectives(Graph& graph, const CompileOptions&) {
  const IdMap<bool> lives = living_nodes(graph, [&](const Node& node) { return acts(graph, node); });
  IdMap<bool> keep(graph.nodes.size(), true), gone(graph.values.size(), false);
  int dropped = 0;
  bool any = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (lives[i]) continue;
    bool goes = is_start_or_wait(node);
    for_each_operand(node, [&](ValueId id) { goes |= gone[id]; });
    if (!goes) continue;
    keep[i] = false;
    any = true;
    dropped += facts(node.op).effect == Effect::collective_start;
    for (ValueId id : node.results) gone[id] = true;
  }
  if (!any) return unchanged();
  keep_nodes(graph, keep);
  if (dropped == 0) return {};
  return {fmt::format("{} collectives that nobody reads", dropped)};
}

}  // namespace rondo::ir

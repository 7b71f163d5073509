// A node is dead if no live node reads its results and it has no effect. Assertions that a device
// checks during compute have no effect on the results of a step, so they are removed.
#include <algorithm>

#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

bool is_assertion(const Node& node) {
  return node.op == "aten._assert_async.default" || node.op == "aten._assert_async.msg";
}

bool acts(const Graph& graph, const Node& node) {
  if (node.results.empty()) return !is_assertion(node);
  if (facts(node.op).effect != Effect::none) return true;
  return std::any_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return graph.value(id).writes != kNoValue; });
}

}  // namespace

Notes eliminate_dead_code(Graph& graph, const CompileOptions&) {
  keep_nodes(graph, living_nodes(graph, [&](const Node& node) { return acts(graph, node); }));
  return {};
}

}  // namespace rondo::ir

// A node is dead if no living node reads its results and it does nothing else. Assertions that a
// device checks while it computes do nothing that a step's results depend on, and go.
#include <algorithm>

#include "compiler/ir/def_use.h"
#include "compiler/ir/op_facts.h"
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

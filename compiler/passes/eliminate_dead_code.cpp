// A node is dead if nobody reads its results and it does nothing else. Walking backwards, a node that is
// dropped no longer counts as a reader of its operands, so whole chains go in one sweep. Assertions that a
// device checks while it computes do nothing that a step's results depend on, and go.
#include <algorithm>

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
  IdMap<bool> read(graph.values.size(), false);
  std::vector<bool> keep(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    keep[i] = acts(graph, node) ||
              std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return read[id]; });
    if (keep[i]) for_each_operand(node, [&](ValueId id) { read[id] = true; });
  }
  keep_nodes(graph, keep);
  return {};
}

}  // namespace rondo::ir

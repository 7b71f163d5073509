//   %5: f32[8] = aten.mul.Tensor(%1, %2)          %5: f32[8] = aten.mul.Tensor(%1, %2)
//   %6: f32[8] = aten.mul.Tensor(%1, %2)    ->    %7: f32[8] = aten.add.Tensor(%5, %5, 1)
//   %7: f32[8] = aten.add.Tensor(%5, %6, 1)
//
// A value names one content of a storage, so equal operands mean equal contents, with or without
// writes. A result that is overwritten later must not be merged, nor results that update two
// states: each needs its own storage.
#include "compiler/analysis/equal_nodes.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {

Notes common_subexpressions(Graph& graph, const CompileOptions&) {
  merge_equal_nodes(
      graph,
      [&](NodeIndex i) {
        return graph.nodes[i].op != kReturn && facts(graph.nodes[i].op).effect == Effect::none;
      },
      [&](NodeIndex a, NodeIndex b) {
        return graph.nodes[a].phase == graph.nodes[b].phase && graph.nodes[a].origin == graph.nodes[b].origin;
      });
  return {};
}

}  // namespace rondo::ir

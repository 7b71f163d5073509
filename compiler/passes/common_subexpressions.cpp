//   %5: f32[8] = aten.mul.Tensor(%1, %2)          %5: f32[8] = aten.mul.Tensor(%1, %2)
//   %6: f32[8] = aten.mul.Tensor(%1, %2)    ->    %7: f32[8] = aten.add.Tensor(%5, %5, 1)
//   %7: f32[8] = aten.add.Tensor(%5, %6, 1)
//
// Since a value names one content of a storage, equal operands mean equal contents, writes or not. What must
// not be merged is a result that is itself overwritten later, and results that update two states: each needs
// its own storage.
#include <unordered_set>

#include "compiler/analysis/equal_nodes.h"
#include "compiler/ir/op_facts.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

class Merger {
 public:
  explicit Merger(Graph& graph)
      : graph_(graph), replacement_(graph.values.size(), kNoValue), own_(need_own_storage(graph)) {}

  void run() {
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      for_each_operand(node, [&](ValueId& id) {
        if (const ValueId other = replacement_[id]; other != kNoValue) id = other;
      });
      if (!may_merge(node)) continue;
      const auto [first, is_new] = seen_.insert(&node);
      if (is_new) continue;
      for (std::size_t k = 0; k < node.results.size(); ++k)
        replacement_[node.results[k]] = (*first)->results[k];
      keep[i] = false;
    }
    replace_uses(graph_, replacement_);  // the marks of views
    keep_nodes(graph_, keep);
  }

 private:
  bool may_merge(const Node& node) const {
    if (node.results.empty() || node.op == kReturn || facts(node.op).effect != Effect::none) return false;
    for (ValueId id : node.results)
      if (own_[id]) return false;
    return true;
  }

  struct Hash {
    std::size_t operator()(const Node* node) const { return hash_node(*node); }
  };
  struct Equal {
    const Graph* graph;
    bool operator()(const Node* a, const Node* b) const {
      return a->phase == b->phase && a->origin == b->origin && equal_nodes(*graph, *a, *b);
    }
  };

  Graph& graph_;
  IdMap<ValueId> replacement_;
  IdMap<bool> own_;  // for a value
  std::unordered_set<const Node*, Hash, Equal> seen_{16, Hash{}, Equal{&graph_}};
};

}  // namespace

Notes common_subexpressions(Graph& graph, const CompileOptions&) {
  Merger(graph).run();
  return {};
}

}  // namespace rondo::ir

// Moves updates of parameters from the end of a step up into its backward.
//
//   backward layers.1.weight                       backward layers.1.weight
//     %5 views %4 = wait_tensor(%4)                  %5 views %4 = wait_tensor(%4)
//   backward layers.0                      ->      update optimizer
//     %6 = mm(...)                                   %9, ... = rondo.adamw([%0], ..., [%5], ...)
//   update optimizer                               backward layers.0
//     %9, ... = rondo.adamw([%0], ..., [%5], ...)    %6 = mm(...)
//
// An update comes right after its last operand, and after the last node that reads its old
// parameters or moments: an earlier one could not overwrite them. The nodes of the update phase
// that it reads come with it. So do the sums of squares of its gradients, or the gradients would
// live on. An update that needs a result of the whole backward, such as the gradient norm, stays.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr NodeIndex kStays = std::numeric_limits<NodeIndex>::max();

class EarlyUpdates {
 public:
  explicit EarlyUpdates(Graph& graph)
      : graph_(graph),
        def_use_(graph),
        roots_(storage_roots(graph)),
        ready_(graph.nodes.size(), kNoNode),
        last_read_(graph.values.size(), kNoNode),
        behind_(graph.nodes.size(), kStays) {
    for (NodeIndex i = 0; i < return_index(); ++i)
      if (!is_update(i)) last_of_backward_ = i;
  }

  Notes run() {
    find_ready();
    find_last_reads();
    int updates = 0, moved = 0;
    for (NodeIndex i = 0; i < return_index(); ++i) {
      const OpKind kind = op(i).kind;
      if (!is_update(i) || (kind != OpKind::optimizer && kind != OpKind::squares)) continue;
      const NodeIndex place = std::max(ready_[i], kind == OpKind::optimizer ? last_read(i) : kNoNode);
      if (place < last_of_backward_) behind_[i] = place;
      if (kind == OpKind::squares) continue;
      ++updates;
      moved += place < last_of_backward_;
    }
    if (moved == 0) return unchanged();
    move();
    return {fmt::format("{} of {} updates run in the backward", moved, updates)};
  }

 private:
  NodeIndex return_index() const { return graph_.node_count() - 1; }
  bool is_update(NodeIndex i) const { return graph_.nodes[i].phase == Phase::update; }
  const Op& op(NodeIndex i) const { return facts(graph_.nodes[i].op); }

  // Finds for each node the last one before it that must stay where it is and that it depends on; a
  // node that must stay is its own.
  void find_ready() {
    for (NodeIndex i = 0; i < return_index(); ++i) {
      if (!is_update(i) || op(i).effect != Effect::none) {
        ready_[i] = i;
        continue;
      }
      for_each_operand(graph_.nodes[i], [&](ValueId id) {
        if (const NodeIndex maker = def_use_.maker(id); maker != kNoNode)
          ready_[i] = std::max(ready_[i], ready_[maker]);
      });
    }
  }

  // Finds for each storage the last node, except for optimizers, that needs it.
  void find_last_reads() {
    const IdMap<NodeIndex> waits = waits_of_starts(graph_);
    for (NodeIndex i = 0; i < return_index(); ++i)
      if (op(i).kind != OpKind::optimizer)
        for_each_operand(graph_.nodes[i], [&](ValueId id) {
          NodeIndex& last = last_read_[roots_[id]];
          last = std::max({last, i, waits[i]});
        });
  }
  NodeIndex last_read(NodeIndex optimizer) const {
    const std::vector<const UseList*> lists = lists_of(graph_.nodes[optimizer]);
    NodeIndex last = kNoNode;
    for (std::size_t k = 0; k < static_cast<std::size_t>(op(optimizer).overwritten) && k < lists.size(); ++k)
      for (const ValueId id : lists[k]->values) last = std::max(last, last_read_[roots_[id]]);
    return last;
  }

  void move() {
    IdMap<Place> places = present_places(graph_);
    for (NodeIndex i = return_index(); i-- > 0;) {
      if (behind_[i] == kStays) continue;
      places[i] = {behind_[i], 1};
      for_each_operand(graph_.nodes[i], [&](ValueId id) {
        const NodeIndex maker = def_use_.maker(id);
        if (maker != kNoNode && is_update(maker)) behind_[maker] = std::min(behind_[maker], behind_[i]);
      });
    }
    reorder(graph_, places);
  }

  Graph& graph_;
  DefUse def_use_;
  IdMap<ValueId> roots_;
  IdMap<NodeIndex> ready_;      // by node
  IdMap<NodeIndex> last_read_;  // by root
  IdMap<NodeIndex> behind_;     // by node: the one that it follows, or kStays
  NodeIndex last_of_backward_ = kNoNode;
};

}  // namespace

Notes update_in_backward(Graph& graph, const CompileOptions& options) {
  if (!options.early_step_in_backward) return unchanged();
  if (overwrites(graph)) return left_alone();
  return EarlyUpdates(graph).run();
}

}  // namespace rondo::ir

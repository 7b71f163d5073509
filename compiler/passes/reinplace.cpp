// Replaces an op by its in-place form where no node reads the overwritten storage afterwards.
//
//   %5: f32[8] = aten.mul.Tensor(%4, %1)    ->    %5: f32[8] writes %4 = aten.mul_.Tensor(%4, %1)
//
// The rule is about storages, not values: a later reader of a view of %4 keeps the op, and so does
// a collective in progress that reads %4. An input is overwritten only if it gets new content in
// the end: by that content, or before it by a value that is not returned.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

// True where no two indices reach one element: sorted by stride, each stride exceeds the reach of
// those before it.
bool is_free_of_overlap(const TensorType& type) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (std::size_t i = 0; i < type.sizes.size(); ++i)
    if (type.sizes[i] > 1) dims.emplace_back(type.strides[i], type.sizes[i]);
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

class Reinplacer {
 public:
  explicit Reinplacer(Graph& graph)
      : graph_(graph), roots_(storage_roots(graph)), last_needed_(last_needed(graph, roots_)) {
    const std::size_t values = graph.values.size();
    merged_.resize(values);
    std::iota(merged_.begin(), merged_.end(), 0);
    input_.assign(values, kNoValue);
    updates_.assign(values, kNoValue);
    updated_.assign(values, false);
    returned_.assign(values, false);
    claimed_.assign(values, -1);
    target_.assign(values, kNoValue);
    for (const Input& input : graph.inputs) input_[input.value] = input.value;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const ValueId value = std::get<Use>(graph.return_node().args[i]).value;
      returned_[storage(value)] = true;
      const int target = graph.outputs[i].updates;
      if (target < 0) continue;
      updates_[value] = graph.inputs[target].value;
      updated_[graph.inputs[target].value] = true;
    }
  }

  void run() {
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      Node& node = graph_.nodes[i];
      const Op& op = facts(node.op);
      if (op.overwritten == 0) continue;
      const std::vector<ValueId> targets = overwritten_operands(node, op.overwritten);
      if (!may_overwrite(node, i, targets)) continue;
      node.op = in_place_name(op);
      for (std::size_t k = 0; k < targets.size(); ++k) join(node.results[k], targets[k]);
    }
  }

 private:
  // Returns the storage of a value after the writes so far.
  ValueId storage(ValueId id) {
    ValueId& root = roots_[id];
    while (merged_[root] != root) root = merged_[root] = merged_[merged_[root]];
    return root;
  }

  // Returns an empty list if one of them is not a tensor of this graph.
  static std::vector<ValueId> overwritten_operands(const Node& node, int count) {
    std::vector<ValueId> targets;
    for (std::size_t arg = 0; arg < static_cast<std::size_t>(count) && arg < node.args.size(); ++arg) {
      if (const auto* use = std::get_if<Use>(&node.args[arg])) {
        targets.push_back(use->value);
      } else if (const auto* list = std::get_if<UseList>(&node.args[arg])) {
        targets.insert(targets.end(), list->values.begin(), list->values.end());
      } else {
        return {};
      }
    }
    for (ValueId id : targets)
      if (id == kNoValue) return {};
    return targets;
  }

  bool may_overwrite(const Node& node, NodeIndex i, const std::vector<ValueId>& targets) {
    if (targets.empty() || targets.size() > node.results.size()) return false;
    for (std::size_t k = 0; k < targets.size(); ++k)
      if (!is_free(node.results[k], targets[k], i)) return false;
    for (ValueId id : targets) {  // each target needs its own storage
      if (claimed_[storage(id)] == i) return false;
      claimed_[storage(id)] = i;
      target_[storage(id)] = id;
    }
    // The other arguments may be the target itself (x * x), but not another view of its storage. A
    // product reads all its factors until it ends.
    bool conflict = false;
    std::size_t reads = 0;
    for_each_operand(node, [&](ValueId id) {
      if (claimed_[storage(id)] != i) return;
      ++reads;
      if (target_[storage(id)] != id) conflict = true;
    });
    return !conflict && (reads == targets.size() || !facts(node.op).is_heavy());
  }

  bool is_free(ValueId result, ValueId target, NodeIndex i) {
    const ValueId old = storage(target);
    const TensorType& type = graph_.value(target).type;
    if (graph_.value(result).type != type || graph_.value(result).views != kNoValue) return false;
    if (last_needed_[old] > i || !is_free_of_overlap(type)) return false;
    if (const ValueId input = input_[old]; input != kNoValue)
      return updates_[result] == input || (updated_[input] && !returned_[storage(result)]);
    // A part of a larger storage would keep the whole storage alive.
    return storage_bytes(type) == storage_bytes(graph_.value(old).type);
  }

  void join(ValueId result, ValueId target) {
    graph_.value(result).writes = target;
    const ValueId from = storage(result), to = storage(target);
    merged_[from] = to;
    last_needed_[to] = std::max(last_needed_[to], last_needed_[from]);
  }

  Graph& graph_;
  IdMap<ValueId> roots_;
  IdMap<NodeIndex> last_needed_;  // by root
  IdMap<ValueId> merged_;         // by root: the root of the storage it was written into
  IdMap<ValueId> input_;          // by storage: its input
  IdMap<ValueId> updates_;        // by value: the input that it is returned for
  IdMap<bool> updated_;           // by input: a value is returned for it
  IdMap<bool> returned_;          // by root: a value in it is returned
  IdMap<std::int32_t> claimed_;   // by storage: the last node that tried to overwrite it,
  IdMap<ValueId> target_;         // and through which value
};

}  // namespace

Notes reinplace(Graph& graph, const CompileOptions&) {
  Reinplacer(graph).run();
  return {};
}

}  // namespace rondo::ir

// Removes a cast that undoes a widening cast, and lets casts read the source of a widening cast.
//
//   %1: f32[8] = aten._to_copy.default(%0, f32, ...)       (%0 is bf16)
//   %2: bf16[8] = aten._to_copy.default(%1, bf16, ...)     gone, readers read %0
//   %3: f64[8] = aten._to_copy.default(%1, f64, ...)       %3 = aten._to_copy.default(%0, f64, ...)
//   %4: f64[1] = rondo.sums_of_squares.default([%1])       %4 = rondo.sums_of_squares.default([%0])
//   %6: f32[8] = aten.add.Tensor(%5, %1, 1)                %6 = rondo.add_widened.default(%5, %0)
//
// f32 represents every bf16 and f16 number, and f64 every f32, so %1 has the numbers of %0, and one
// rounding of them remains. A narrowing cast ends such a chain, since its readers read rounded
// numbers. Sign and payload of a nan may differ. Some ops widen their operands themselves
// (Op::widens): the optimizer reads gradients in the dtype of their products. So do sums of
// gradients in the update, which are the sums over microbatches.
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

bool holds_all_of(DType wide, DType narrow) {
  if (wide == narrow) return true;
  const bool is_half = narrow == DType::bf16 || narrow == DType::f16;
  return (wide == DType::f32 && is_half) || (wide == DType::f64 && (is_half || narrow == DType::f32));
}

class CastFolder {
 public:
  explicit CastFolder(Graph& graph)
      : graph_(graph),
        roots_(storage_roots(graph)),
        written_(overwritten_storages(graph, roots_)),
        own_(written_),
        at_start_(graph.values.size(), false),
        widened_(graph.values.size(), kNoValue),
        replacement_(graph.values.size(), kNoValue) {
    for (ValueId id = 0; id < graph.value_count(); ++id) at_start_[id] = root(id) == id;
    for_each_operand(graph.return_node(), [&](ValueId id) { own_[root(id)] = true; });
  }

  // Returns true if it removed a cast. Other casts may get another operand.
  bool run() {
    bool removed = false;
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      for_each_operand(node, [&](ValueId& id) {
        if (replacement_[id] != kNoValue) id = replacement_[id];
      });
      const Op& op = facts(node.op);
      if (op.widens >= 0) read_narrow(node.args[static_cast<std::size_t>(op.widens)]);
      if (node.op == "aten.add.Tensor" && node.phase == Phase::update) add_narrow(node);
      if (node.results.size() != 1 || node.args.empty() || !std::holds_alternative<Use>(node.args[0]))
        continue;
      if (op.effect == Effect::wait || op.view == ViewKind::same_start)
        at_start_[node.results[0]] = at_start_[std::get<Use>(node.args[0]).value];
      if (!casts_only(node) || !fold(node)) continue;
      keep[i] = false;
      removed = true;
    }
    replace_uses(graph_, replacement_);  // for the marks of views
    keep_nodes(graph_, keep);
    return removed;
  }

 private:
  ValueId root(ValueId id) const { return roots_[id]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // True for a conversion within the device that keeps sizes and strides.
  bool casts_only(const Node& node) const {
    return converts_on_device(node) &&
           type(node.results[0]).strides == type(std::get<Use>(node.args[0]).value).strides;
  }

  void read_narrow(Argument& argument) {
    const auto read = [&](ValueId& id) {
      const ValueId narrow = widened_[id];
      if (narrow != kNoValue && type(narrow).dtype == DType::bf16 && type(id).dtype == DType::f32)
        id = narrow;
    };
    if (auto* use = std::get_if<Use>(&argument)) read(use->value);
    if (auto* list = std::get_if<UseList>(&argument))
      for (ValueId& id : list->values) read(id);
  }

  // The types of both operands are those of the result, so neither is broadcast.
  void add_narrow(Node& node) {
    const ValueId sum = operand(node, 0), x = operand(node, 1);
    if (sum == kNoValue || x == kNoValue || number(node, 2) != 1 || !is_contiguous(type(sum)) ||
        type(x) != type(sum) || type(node.results[0]) != type(sum))
      return;
    Argument narrow = node.args[1];
    read_narrow(narrow);
    if (narrow == node.args[1]) return;
    node.op = "rondo.add_widened.default";
    node.args = {node.args[0], narrow};
  }

  // Returns true if readers of the result read an earlier value instead.
  bool fold(Node& node) {
    const ValueId result = node.results[0];
    ValueId& source = std::get<Use>(node.args[0]).value;
    if (const ValueId narrow = widened_[source]; narrow != kNoValue) {
      if (may_replace(narrow, result)) {
        replacement_[result] = narrow;
        return true;
      }
      source = narrow;
    }
    if (holds_all_of(type(result).dtype, type(source).dtype) && !written_[root(source)] &&
        !written_[root(result)])
      widened_[result] = source;
    return false;
  }

  // True where the result needs no storage of its own, because it is neither overwritten nor
  // returned, and the other value is aligned as a copy would be.
  bool may_replace(ValueId other, ValueId result) const {
    return type(other) == type(result) && at_start_[other] && !own_[root(result)];
  }

  Graph& graph_;
  IdMap<ValueId> roots_;
  IdMap<bool> written_;     // by root
  IdMap<bool> own_;         // by root: overwritten or returned
  IdMap<bool> at_start_;    // by value: at the start of its storage, and so aligned like one
  IdMap<ValueId> widened_;  // by value: the narrower value with the same numbers
  IdMap<ValueId> replacement_;
};

}  // namespace

Notes fold_casts(Graph& graph, const CompileOptions& options) {
  // Removing a cast may connect views that undo each other, with further casts after them.
  while (CastFolder(graph).run()) canonicalize(graph, options);
  return {};
}

}  // namespace rondo::ir

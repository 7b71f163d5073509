// Removes views and copies without effect, and turns other views between contiguous tensors into
// one aten.view.
//
//   %1: f32[4,8] views %0 = aten.detach.default(%0)           gone, readers read %0
//   %2: f32[8,4]{1,8} views %1 = aten.t.default(%1)           %2 = aten.t.default(%0)
//   %3: f32[4,8] views %2 = aten.t.default(%2)                gone, readers read %0
//   %4: f32[1,4,8] views %3 = aten.unsqueeze.default(%3, 0)   %4 = aten.view.default(%0, [1, 4, 8])
//   %5: f32[2,16] views %4 = aten.view.default(%4, [2, 16])   %5 = aten.view.default(%0, [2, 16])
//
// This is safe because two views of one storage with the same start and type (dtype, sizes,
// strides) are the same tensor. Ops that move the start end a chain of views; of these, only a
// slice of the whole is removed. A wait ends a chain too, since values before it must not be read.
//
// A graph of several ranks keeps its types of sharding. A transposition of a dimension of size 1
// moves no element. But where ranks have a part each along that dimension, it determines the
// dimension of the part, and a view would not: [T, 1, D] -> [1, T, D] of one head a rank. So a node
// stays where its simpler form has another type.
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/passes/passes.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/value_shardings.h"

namespace rondo::ir {
namespace {

bool is_row_major(const TensorType& type) { return type.strides == contiguous_strides(type.sizes); }

// A value and the views that led to it, all with the same start. `at_start`: at the start of
// the storage.
struct Chain {
  ValueId parent = kNoValue;
  ValueId oldest = kNoValue;
  ValueId oldest_contiguous = kNoValue;
  bool at_start = false;  // and so aligned like a storage
};

class Canonicalizer {
 public:
  explicit Canonicalizer(Graph& graph)
      : graph_(graph),
        roots_(storage_roots(graph)),
        returned_(graph.values.size(), false),
        written_(overwritten_storages(graph, roots_)),
        shardings_(value_shardings(graph)),
        types_(graph),
        chains_(graph.values.size()),
        replacement_(graph.values.size(), kNoValue) {
    for_each_operand(graph.return_node(), [&](ValueId id) { returned_[root(id)] = true; });
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      chains_[id].oldest = id;
      if (is_row_major(graph.value(id).type)) chains_[id].oldest_contiguous = id;
      chains_[id].at_start = roots_[id] == id;
    }
  }

  void run() {
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      for_each_operand(node, [&](ValueId& id) { id = replaced(id); });
      if (node.results.size() != 1 || node.args.empty() || !std::holds_alternative<Use>(node.args[0]))
        continue;
      const ValueId same = simplify(node, std::get<Use>(node.args[0]).value, node.results[0]);
      if (same == kNoValue) continue;
      replacement_[node.results[0]] = same;
      keep[i] = false;
    }
    replace_uses(graph_, replacement_);  // for the marks of views
    keep_nodes(graph_, keep);
  }

 private:
  ValueId root(ValueId id) const { return roots_[id]; }
  ValueId replaced(ValueId id) const { return replacement_[id] == kNoValue ? id : replacement_[id]; }
  bool same_type(ValueId a, ValueId b) const {
    return graph_.value(a).type == graph_.value(b).type && shardings_[a] == shardings_[b];
  }

  // True where a view of `from` with the sizes of `to` has the type of sharding of `to`.
  bool keeps_sharding(ValueId from, ValueId to) {
    if (!shardings_[from] || !shardings_[to])
      return true;  // buffers with different parts, which no view splits
    const std::vector<std::int64_t>&sizes = graph_.value(from).type.sizes,
          &viewed = graph_.value(to).type.sizes;
    ShardingType type = types_.type_of(*shardings_[from]);
    bool is_flat = false;
    for (std::size_t axis = 0; axis < types_.axes(); ++axis) {
      const auto placement = placement_in_view(type.on[axis], sizes, viewed);
      if (!placement) return false;
      type.on[axis] = *placement;
      is_flat = is_flat || placement->kind == Placement::Kind::inner;
    }
    if (is_flat && type.unflattened < 0) types_.flatten(sizes, type);
    if (is_flat && type.unflattened >= 0) types_.unflatten(viewed, type);
    return type == types_.type_of(*shardings_[to]);
  }

  // Returns the earlier value that is the same tensor as the node's result, or kNoValue. May
  // replace the node by a simpler one.
  ValueId simplify(Node& node, ValueId source, ValueId result) {
    if (is_needless_copy(node, source, result)) return source;
    const ValueId viewed = graph_.value(result).views;
    if (viewed == kNoValue || replaced(viewed) != source) return kNoValue;
    const Op& op = facts(node.op);
    if (op.effect == Effect::wait) chains_[result].at_start = chains_[source].at_start;
    if (op.view == ViewKind::moved_start && node.op == "aten.slice.Tensor" && same_type(source, result))
      return source;
    if (op.view != ViewKind::same_start) return kNoValue;
    for (ValueId ancestor : {source, chains_[source].parent, chains_[source].oldest})
      if (ancestor != kNoValue && same_type(ancestor, result)) return ancestor;
    extend_chain(source, result);
    view_oldest(node, result);
    return kNoValue;
  }

  // True for a copy within the device to the same type that needs no storage of its own: neither it
  // nor its source is overwritten, and it is not returned. Its source must be aligned as a copy
  // would be.
  bool is_needless_copy(const Node& node, ValueId source, ValueId result) const {
    if (node.op != "aten.clone.default" && !converts_on_device(node)) return false;
    return same_type(source, result) && chains_[source].at_start && !written_[root(source)] &&
           !written_[root(result)] && !returned_[root(result)];
  }

  void extend_chain(ValueId source, ValueId result) {
    const Chain& from = chains_[source];
    Chain& to = chains_[result];
    to = {source, from.oldest,
          from.oldest_contiguous == kNoValue ? to.oldest_contiguous : from.oldest_contiguous, from.at_start};
  }

  void view_oldest(Node& node, ValueId result) {
    Value& value = graph_.value(result);
    const ValueId oldest = chains_[result].oldest_contiguous;
    if (oldest == kNoValue || oldest == result || !is_row_major(value.type)) return;
    if (element_count(graph_.value(oldest).type) != element_count(value.type)) return;  // an expand
    if (!keeps_sharding(oldest, result)) return;
    node.op = "aten.view.default";
    node.args = {Use{oldest}, value.type.sizes};
    value.views = oldest;
  }

  Graph& graph_;
  IdMap<ValueId> roots_;  // before this pass
  IdMap<bool> returned_;  // by root
  IdMap<bool> written_;   // by root: overwritten
  IdMap<std::optional<Sharding>> shardings_;
  ValueShardings types_;  // only for the arithmetic of types
  IdMap<Chain> chains_;
  IdMap<ValueId> replacement_;
};

}  // namespace

Notes canonicalize(Graph& graph, const CompileOptions&) {
  Canonicalizer(graph).run();
  return {};
}

}  // namespace rondo::ir

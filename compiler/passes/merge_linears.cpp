// Merges linear layers of one input into one product, in the forward and in both products of
// the backward.
//
//   forward                               forward
//     %q = mm(%x, t(%wq))                   %w = cat([%wq, %wk], 0)
//     %k = mm(%x, t(%wk))                   %y = mm(%x, t(%w))
//                                           %q = slice(%y, 1, ...), %k = slice(%y, 1, ...)
//   backward                        ->    backward
//     %a = mm(%gk, %wk)                     %g = cat([%gq, %gk], 1)
//     %gwk = mm(t(%gk), %x)                 %gx = mm(%g, %w)
//     %b = mm(%gq, %wq)                     %gw = mm(t(%g), %x)
//     %gwq = mm(t(%gq), %x)                 %gwq = slice(%gw, 0, ...), %gwk = slice(%gw, 0, ...)
//     %gx = add(%a, %b)
//
// Weights are separate in memory, so one weight costs a copy in each phase. Only the cost model can
// decide whether the larger products are worth that, and often they are not. Layers whose results
// are read by one gated unit are merged only with each other; its backward then writes the merged
// gradient directly.
//
// A slice is a view where all its readers accept rows with gaps, and a copy elsewhere. If the
// backward reads only some of the slices, these are copies too, so that the whole product is
// not saved.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/analysis/linear_groups.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kView = "aten.view.default", kSum = "aten.add.Tensor";

constexpr double kWorthIt = 0.999;  // a smaller gain is rounding of the estimates

// The replacement of a group, which is applied only if it is worth it.
struct Merged {
  std::vector<Node> nodes;
  std::vector<Place> places;
  std::vector<NodeIndex> dropped;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  std::vector<std::pair<ValueId, TensorType>> retyped;  // views of results that become slices
};

class LinearMerger {
 public:
  LinearMerger(Graph& graph, const DeviceModel& device)
      : graph_(graph),
        device_(device),
        def_use_(graph),
        places_(present_places(graph)),
        keep_(graph.nodes.size(), true) {}

  Notes run() {
    for (const LinearGroup& group : linear_groups(graph_, def_use_)) try_group(group);
    if (merged_ > 0) finish();
    Notes notes;
    if (merged_ > 0) notes.push_back(fmt::format("merged {} linear layers into {}", linears_, merged_));
    if (slower_ > 0)
      notes.push_back(
          fmt::format("left {} groups of linear layers of one input unchanged: a copy of their "
                      "weights takes longer than one product saves (the first in \"{}\")",
                      slower_, first_slower_));
    return notes;
  }

 private:
  // Adds nodes to `merged`, all at one place.
  struct Writer {
    LinearMerger& of;
    Merged& merged;
    Place place;
    Phase phase;
    std::string module;

    ValueId make(std::string_view op, std::vector<Argument> args, TensorType type, ValueId views = kNoValue) {
      const ValueId result = of.graph_.add_value({.type = std::move(type), .views = views});
      merged.nodes.push_back({std::string(op), std::move(args), {result}, phase, module, "merge_linears"});
      merged.places.push_back(place);
      return result;
    }
    ValueId transposed(ValueId id) {
      TensorType type = of.type(id);
      std::swap(type.sizes[0], type.sizes[1]);
      std::swap(type.strides[0], type.strides[1]);
      return make(kTranspose, {Use{id}}, std::move(type), id);
    }
    ValueId slice(ValueId id, std::size_t dim, std::int64_t begin, TensorType type) {
      const std::int64_t end = begin + type.sizes[dim];
      return make("aten.slice.Tensor", {Use{id}, static_cast<std::int64_t>(dim), begin, end, std::int64_t{1}},
                  std::move(type), id);
    }
    // Its module is that of a parameter, like a gather's: a phase that gathers again also
    // concatenates again.
    ValueId weight(const LinearGroup& group, ValueId Linear::*member,
                   const std::vector<std::int64_t>& sizes) {
      UseList weights;
      for (const Linear& linear : group.linears) weights.values.push_back(linear.*member);
      Writer of_parameter{of, merged, place, phase, of.graph_.inputs[group.linears[0].parameter].name};
      const DType dtype = of.type(weights.values[0]).dtype;
      return of_parameter.make("aten.cat.default", {std::move(weights), std::int64_t{0}},
                               contiguous(dtype, sizes));
    }
  };

  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  ValueId result(NodeIndex i) const { return node(i).results[0]; }
  bool is(NodeIndex i, std::string_view op, Phase phase) const {
    return i != kNoNode && node(i).op == op && node(i).phase == phase;
  }

  void try_group(const LinearGroup& group) {
    Merged merged = merge(group);
    if (!is_faster(group, merged)) {
      if (slower_++ == 0) first_slower_ = node(group.linears[0].forward).module;
      return;
    }
    apply(merged);
    linears_ += static_cast<int>(group.linears.size());
    ++merged_;
  }

  // --- the replacement ---

  Merged merge(const LinearGroup& group) {
    Merged m;
    const Linear& first = group.linears[0];
    const std::int64_t rows = type(first.y).sizes[0], depth = type(first.weight).sizes[1];
    const DType dtype = type(first.y).dtype;
    std::int64_t columns = 0;
    for (const Linear& linear : group.linears) columns += type(linear.y).sizes[1];

    Writer forward{*this, m, {first.forward, 0}, Phase::forward, node(first.forward).module};
    const ValueId weight = forward.weight(group, &Linear::weight, {columns, depth});
    const ValueId transposed = forward.transposed(weight);
    const ValueId y =
        forward.make(kProduct, {Use{group.x}, Use{transposed}}, contiguous(dtype, {rows, columns}));
    slice_results(forward, group, y);
    for (const Linear& linear : group.linears) m.dropped.push_back(linear.forward);
    if (group.backward) merge_backward(group, m, weight, {columns, depth});
    return m;
  }

  void merge_backward(const LinearGroup& group, Merged& m, ValueId forward_weight,
                      const std::vector<std::int64_t>& sizes) {
    NodeIndex last = kNoNode;
    for (const Linear& linear : group.linears) last = std::max(last, linear.of_input);
    Writer backward{*this, m, {last, 0}, Phase::backward, node(group.linears[0].of_input).module};
    const ValueId weight = group.reads_forward_weights()
                               ? forward_weight
                               : backward.weight(group, &Linear::backward_weight, sizes);
    const ValueId grad = merged_gradient(group, m, backward, sizes[0]);
    const ValueId total = result(group.sums.back());
    m.replaced.emplace_back(total, backward.make(kProduct, {Use{grad}, Use{weight}}, type(total)));
    for (const Linear& linear : group.linears) m.dropped.push_back(linear.of_input);
    m.dropped.insert(m.dropped.end(), group.sums.begin(), group.sums.end());
    if (!group.merges_weight_gradients) return;
    const ValueId transposed = backward.transposed(grad);
    const ValueId of_weights = backward.make(kProduct, {Use{transposed}, Use{group.x}},
                                             contiguous(type(group.linears[0].weight).dtype, sizes));
    std::int64_t begin = 0;
    for (const Linear& linear : group.linears) {
      const ValueId old = result(linear.of_weight);
      m.replaced.emplace_back(old, backward.slice(of_weights, 0, begin, type(old)));
      begin += type(old).sizes[0];
      m.dropped.push_back(linear.of_weight);
    }
  }

  // True where a node other than the linear's own backward reads its gradient.
  bool has_another_reader(const Linear& linear) const {
    const auto readers = def_use_.readers(linear.grad);
    return std::any_of(readers.begin(), readers.end(), [&](NodeIndex reader) {
      const bool is_transposition = is(reader, kTranspose, Phase::backward) &&
                                    def_use_.only_reader(node(reader).results[0]) == linear.of_weight;
      return reader != linear.of_input && !is_transposition;
    });
  }

  // A gated unit's backward writes both gradients into one tensor, if no other node reads them.
  ValueId merged_gradient(const LinearGroup& group, Merged& m, Writer& backward, std::int64_t columns) {
    UseList grads;
    for (const Linear& linear : group.linears) grads.values.push_back(linear.grad);
    const TensorType both =
        contiguous(type(grads.values[0]).dtype, {type(grads.values[0]).sizes[0], columns});
    const NodeIndex unit = def_use_.maker(grads.values[0]);
    const bool has_other_readers = std::any_of(group.linears.begin(), group.linears.end(),
                                               [&](const Linear& l) { return has_another_reader(l); });
    if (group.merges_weight_gradients && is(unit, kGatedBackward, Phase::backward) &&
        node(unit).results == grads.values && !has_other_readers) {
      m.dropped.push_back(unit);
      Writer at_unit{*this, m, {unit, 0}, Phase::backward, node(unit).module};
      return at_unit.make("rondo.swiglu_backward_joined.default", node(unit).args, both);
    }
    return backward.make("aten.cat.default", {std::move(grads), std::int64_t{1}}, both);
  }

  // --- slices ---

  void slice_results(Writer& forward, const LinearGroup& group, ValueId y) {
    const auto accepts_gaps = [&](const Linear& linear) { return accepts_row_gaps(linear.y); };
    const auto saved = [&](const Linear& linear) { return read_by_backward(linear.y); };
    const bool saves_all = std::all_of(group.linears.begin(), group.linears.end(), [&](const Linear& linear) {
      return accepts_gaps(linear) && saved(linear);
    });
    std::int64_t begin = 0;
    for (const Linear& linear : group.linears) {
      TensorType sliced = type(linear.y);
      sliced.strides = {type(y).strides[0], 1};
      const ValueId slice = forward.slice(y, 1, begin, sliced);
      begin += sliced.sizes[1];
      const bool is_view = accepts_gaps(linear) && (saves_all || !saved(linear));
      if (is_view) retype_views(forward.merged, linear.y, sliced.strides[0]);
      forward.merged.replaced.emplace_back(
          linear.y,
          is_view ? slice
                  : forward.make("aten.clone.default", {Use{slice}, Symbol{"contiguous"}}, type(linear.y)));
    }
  }

  // True for a view of [T, N] as [B, S, H, D] for a rotation, which accepts gaps between rows.
  bool is_view_for_rope(NodeIndex i) const {
    if (node(i).op != kView) return false;
    const ValueId viewed = result(i);
    return type(viewed).sizes.size() == 4 &&
           type(viewed).sizes[2] * type(viewed).sizes[3] == type(operand(node(i), 0)).sizes[1] &&
           std::all_of(def_use_.readers(viewed).begin(), def_use_.readers(viewed).end(),
                       [&](NodeIndex reads) { return node(reads).op == "rondo.rope.default"; });
  }
  bool accepts_row_gaps(ValueId y) const {
    return std::all_of(def_use_.readers(y).begin(), def_use_.readers(y).end(), [&](NodeIndex i) {
      return node(i).op == kGatedUnit || node(i).op == kGatedBackward ||
             node(i).op.starts_with("rondo.rms_norm") || is_view_for_rope(i);
    });
  }
  void retype_views(Merged& m, ValueId y, std::int64_t stride) const {
    for (NodeIndex i : def_use_.readers(y)) {
      if (node(i).op != kView) continue;
      TensorType sliced = type(result(i));
      sliced.strides = {sliced.sizes[1] * stride, stride, sliced.sizes[3], 1};
      m.retyped.emplace_back(result(i), std::move(sliced));
    }
  }
  bool read_by_backward(ValueId id) const {
    return std::any_of(def_use_.readers(id).begin(), def_use_.readers(id).end(), [&](NodeIndex i) {
      if (node(i).phase != Phase::forward) return true;
      return facts(node(i).op).view != ViewKind::none &&
             std::any_of(node(i).results.begin(), node(i).results.end(),
                         [&](ValueId viewed) { return read_by_backward(viewed); });
    });
  }

  // --- the estimate ---

  // The backward recomputes the merged weight even where it reads the forward's
  // (passes/recompute.cpp). Sums count nothing, since passes/fuse_addmm.cpp makes them part
  // of products.
  bool is_faster(const LinearGroup& group, const Merged& m) const {
    const auto seconds = [&](const Node& node) { return node_seconds(graph_, node, device_); };
    double before = 0, after = group.reads_forward_weights() ? seconds(m.nodes[0]) : 0;
    for (NodeIndex i : m.dropped)
      if (node(i).op != kSum) before += seconds(node(i));
    for (const Node& node : m.nodes) after += seconds(node);
    return after < kWorthIt * before;
  }

  void apply(Merged& m) {
    std::move(m.nodes.begin(), m.nodes.end(), std::back_inserter(new_nodes_));
    new_places_.insert(new_places_.end(), m.places.begin(), m.places.end());
    for (NodeIndex i : m.dropped) keep_[static_cast<std::size_t>(i)] = false;
    for (auto& [id, type] : m.retyped) graph_.value(id).type = std::move(type);
    replaced_.insert(replaced_.end(), m.replaced.begin(), m.replaced.end());
  }

  void finish() {
    IdMap<ValueId> replacement(graph_.values.size(), kNoValue);
    for (const auto& [old, by] : replaced_) replacement[old] = by;
    replace_uses(graph_, replacement);
    for (Node& node : new_nodes_)
      for_each_operand(node, [&](ValueId& id) { id = replacement[id] == kNoValue ? id : replacement[id]; });
    keep_add_and_reorder(graph_, keep_, places_, std::move(new_nodes_), new_places_);
  }

  Graph& graph_;
  const DeviceModel& device_;
  DefUse def_use_;
  IdMap<Place> places_;
  std::vector<bool> keep_;
  std::vector<Node> new_nodes_;
  std::vector<Place> new_places_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
  int linears_ = 0, merged_ = 0, slower_ = 0;
  std::string first_slower_;
};

}  // namespace

Notes merge_linears(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  eliminate_dead_code(graph, options);  // dead readers must not count
  Notes notes = LinearMerger(graph, device_model_for(options.device)).run();
  eliminate_dead_code(graph, options);
  return notes;
}

}  // namespace rondo::ir

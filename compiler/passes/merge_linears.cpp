// Linear layers of one input are one product, in the forward and in both of its backwards.
//
//   forward                                   forward
//     %q = mm(%x, t(%wq))                       %w = cat([%wq, %wk], 0)
//     %k = mm(%x, t(%wk))                       %y = mm(%x, t(%w))
//                                               %q = slice(%y, 1, ...), %k = slice(%y, 1, ...)
//   backward                            ->    backward
//     %a = mm(%gk, %wk)                         %g = cat([%gq, %gk], 1)
//     %gwk = mm(t(%gk), %x)                     %gx = mm(%g, %w)
//     %b = mm(%gq, %wq)                         %gw = mm(t(%g), %x)
//     %gwq = mm(t(%gq), %x)                     %gwq = slice(%gw, 0, ...), %gwk = slice(%gw, 0, ...)
//     %gx = add(%a, %b)
//
// Weights lie apart in memory, so one weight costs a copy, once a phase: only the cost model can say whether
// large products that fill the device are worth it, and they often are not. Layers whose results one gated
// unit reads are merged with each other alone; its backward then writes the merged gradient itself.
//
// A slice is a view where all who read it take rows that lie apart, and a copy elsewhere. If the backward
// reads some of the slices only, these are copies, too, so that it does not keep the whole product.
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

constexpr double kWorthIt = 0.999;  // less than that is the rounding of sums of estimates

// What takes the place of a group: applied only if it is worth it.
struct Merged {
  std::vector<Node> nodes;
  std::vector<Place> places;
  std::vector<NodeIndex> dropped;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  std::vector<std::pair<ValueId, TensorType>> retyped;  // views of what is a slice now
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
    for (const LinearGroup& group : linear_groups(graph_, def_use_)) look_at(group);
    if (merged_ > 0) finish();
    Notes notes;
    if (merged_ > 0) notes.push_back(fmt::format("merged {} linear layers into {}", linears_, merged_));
    if (slower_ > 0)
      notes.push_back(
          fmt::format("left {} groups of linear layers of one input as they are: a copy of their "
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
      const ValueId made = of.graph_.add_value({.type = std::move(type), .views = views});
      merged.nodes.push_back({std::string(op), std::move(args), {made}, phase, module, "merge_linears"});
      merged.places.push_back(place);
      return made;
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
    // It is of its parameters, as a gathered one is: who computes gathers again, computes it again.
    ValueId weight(const LinearGroup& group, ValueId Linear::*one, const std::vector<std::int64_t>& sizes) {
      UseList all;
      for (const Linear& linear : group.linears) all.values.push_back(linear.*one);
      Writer of_parameter{of, merged, place, phase, of.graph_.inputs[group.linears[0].parameter].name};
      const DType dtype = of.type(all.values[0]).dtype;
      return of_parameter.make("aten.cat.default", {std::move(all), std::int64_t{0}},
                               contiguous(dtype, sizes));
    }
  };

  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  ValueId result(NodeIndex i) const { return node(i).results[0]; }
  bool is(NodeIndex i, std::string_view op, Phase phase) const {
    return i != kNoNode && node(i).op == op && node(i).phase == phase;
  }

  void look_at(const LinearGroup& group) {
    Merged merged = merge(group);
    if (!is_faster(group, merged)) {
      if (slower_++ == 0) first_slower_ = node(group.linears[0].forward).module;
      return;
    }
    apply(merged);
    linears_ += static_cast<int>(group.linears.size());
    ++merged_;
  }

  // --- what stands there instead ---

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
    const ValueId all = result(group.sums.back());
    m.replaced.emplace_back(all, backward.make(kProduct, {Use{grad}, Use{weight}}, type(all)));
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

  // Whether anything but the linear's own backward reads its gradient.
  bool has_another_reader(const Linear& linear) const {
    const auto readers = def_use_.readers(linear.grad);
    return std::any_of(readers.begin(), readers.end(), [&](NodeIndex reader) {
      const bool is_transposition = is(reader, kTranspose, Phase::backward) &&
                                    def_use_.only_reader(node(reader).results[0]) == linear.of_weight;
      return reader != linear.of_input && !is_transposition;
    });
  }

  // A gated unit's backward writes both gradients into one tensor, if nobody needs them apart.
  ValueId merged_gradient(const LinearGroup& group, Merged& m, Writer& backward, std::int64_t columns) {
    UseList grads;
    for (const Linear& linear : group.linears) grads.values.push_back(linear.grad);
    const TensorType both =
        contiguous(type(grads.values[0]).dtype, {type(grads.values[0]).sizes[0], columns});
    const NodeIndex unit = def_use_.maker(grads.values[0]);
    const bool are_needed_apart = std::any_of(group.linears.begin(), group.linears.end(),
                                              [&](const Linear& l) { return has_another_reader(l); });
    if (group.merges_weight_gradients && is(unit, kGatedBackward, Phase::backward) &&
        node(unit).results == grads.values && !are_needed_apart) {
      m.dropped.push_back(unit);
      Writer there{*this, m, {unit, 0}, Phase::backward, node(unit).module};
      return there.make("rondo.swiglu_backward_joined.default", node(unit).args, both);
    }
    return backward.make("aten.cat.default", {std::move(grads), std::int64_t{1}}, both);
  }

  // --- slices ---

  void slice_results(Writer& forward, const LinearGroup& group, ValueId y) {
    const auto reads_apart = [&](const Linear& linear) { return takes_rows_apart(linear.y); };
    const auto kept = [&](const Linear& linear) { return read_by_backward(linear.y); };
    const bool keep_all = std::all_of(group.linears.begin(), group.linears.end(), [&](const Linear& linear) {
      return reads_apart(linear) && kept(linear);
    });
    std::int64_t begin = 0;
    for (const Linear& linear : group.linears) {
      TensorType apart = type(linear.y);
      apart.strides = {type(y).strides[0], 1};
      const ValueId slice = forward.slice(y, 1, begin, apart);
      begin += apart.sizes[1];
      const bool is_view = reads_apart(linear) && (keep_all || !kept(linear));
      if (is_view) retype_views(forward.merged, linear.y, apart.strides[0]);
      forward.merged.replaced.emplace_back(
          linear.y,
          is_view ? slice
                  : forward.make("aten.clone.default", {Use{slice}, Symbol{"contiguous"}}, type(linear.y)));
    }
  }

  // [T, N] as [B, S, H, D] for a rotation: its heads may lie apart.
  bool is_view_for_rope(NodeIndex i) const {
    if (node(i).op != kView) return false;
    const ValueId seen = result(i);
    return type(seen).sizes.size() == 4 &&
           type(seen).sizes[2] * type(seen).sizes[3] == type(operand(node(i), 0)).sizes[1] &&
           std::all_of(def_use_.readers(seen).begin(), def_use_.readers(seen).end(),
                       [&](NodeIndex reads) { return node(reads).op == "rondo.rope.default"; });
  }
  bool takes_rows_apart(ValueId y) const {
    return std::all_of(def_use_.readers(y).begin(), def_use_.readers(y).end(), [&](NodeIndex i) {
      return node(i).op == kGatedUnit || node(i).op == kGatedBackward ||
             node(i).op.starts_with("rondo.rms_norm") || is_view_for_rope(i);
    });
  }
  void retype_views(Merged& m, ValueId y, std::int64_t stride) const {
    for (NodeIndex i : def_use_.readers(y)) {
      if (node(i).op != kView) continue;
      TensorType apart = type(result(i));
      apart.strides = {apart.sizes[1] * stride, stride, apart.sizes[3], 1};
      m.retyped.emplace_back(result(i), std::move(apart));
    }
  }
  bool read_by_backward(ValueId id) const {
    return std::any_of(def_use_.readers(id).begin(), def_use_.readers(id).end(), [&](NodeIndex i) {
      if (node(i).phase != Phase::forward) return true;
      return facts(node(i).op).view != ViewKind::none &&
             std::any_of(node(i).results.begin(), node(i).results.end(),
                         [&](ValueId seen) { return read_by_backward(seen); });
    });
  }

  // --- whether it is worth it ---

  // The backward makes the merged weight again even where it reads the forward's: passes/recompute.cpp. Sums
  // count for nothing, since passes/fuse_addmm.cpp makes them part of products.
  bool is_faster(const LinearGroup& group, const Merged& m) const {
    const auto seconds = [&](const Node& node) { return node_seconds(graph_, node, device_); };
    double before = 0, after = group.reads_forward_weights() ? seconds(m.nodes[0]) : 0;
    for (NodeIndex i : m.dropped)
      if (node(i).op != kSum) before += seconds(node(i));
    for (const Node& made : m.nodes) after += seconds(made);
    return after < kWorthIt * before;
  }

  void apply(Merged& m) {
    std::move(m.nodes.begin(), m.nodes.end(), std::back_inserter(made_));
    made_places_.insert(made_places_.end(), m.places.begin(), m.places.end());
    for (NodeIndex i : m.dropped) keep_[static_cast<std::size_t>(i)] = false;
    for (auto& [id, type] : m.retyped) graph_.value(id).type = std::move(type);
    replaced_.insert(replaced_.end(), m.replaced.begin(), m.replaced.end());
  }

  void finish() {
    IdMap<ValueId> replacement(graph_.values.size(), kNoValue);
    for (const auto& [old, by] : replaced_) replacement[old] = by;
    replace_uses(graph_, replacement);
    for (Node& made : made_)
      for_each_operand(made, [&](ValueId& id) { id = replacement[id] == kNoValue ? id : replacement[id]; });
    IdMap<Place> places;
    for (std::size_t i = 0; i < keep_.size(); ++i)
      if (keep_[i]) places.push_back(places_[i]);
    keep_nodes(graph_, keep_);
    add_and_reorder(graph_, std::move(places), std::move(made_), made_places_);
  }

  Graph& graph_;
  const DeviceModel& device_;
  DefUse def_use_;
  IdMap<Place> places_;
  std::vector<bool> keep_;
  std::vector<Node> made_;
  std::vector<Place> made_places_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
  int linears_ = 0, merged_ = 0, slower_ = 0;
  std::string first_slower_;
};

}  // namespace

Notes merge_linears(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  eliminate_dead_code(graph, options);  // so that a reader is one that counts
  Notes notes = LinearMerger(graph, device_model_for(options.device)).run();
  eliminate_dead_code(graph, options);
  return notes;
}

}  // namespace rondo::ir

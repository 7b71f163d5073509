// Rotary embeddings, of halves (dim -2) or of neighbours (dim -1), with casts around them where x is bf16:
//
//   %2 = aten.view.default(%1, [B, T, H, 2, D/2])       %9 = rondo.rope.default(%1, %cos, %sin, false, false)
//   %3, %4 = aten.unbind.int(%2, -2)
//   %5, %6 = %3 * %cos, %4 * %sin                  ->
//   %7 = aten.sub.Tensor(%5, %6, 1)
//   %8 = %4 * %cos + %3 * %sin
//   %9 = aten.cat.default([%7, %8], -1)
//
// and their gradients, which turn back and end in a stack:
//
//   %2, %3 = slices of %1                               %9 = rondo.rope.default(%1, %cos, %sin, false, true)
//   %7 = %3 * %sin + %2 * %cos                     ->
//   %8 = %3 * %cos + -%2 * %sin
//   %9 = aten.stack.default([%7, %8], -2)
#include "compiler/analysis/fusion.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kRank = 4;  // [B, T, H, D]

// A match, as far as it goes.
struct Rotation {
  std::vector<NodeIndex> nodes;
  ValueId first = kNoValue, second = kNoValue, cos = kNoValue, sin = kNoValue;  // of the pairs
  ValueId x = kNoValue;  // what is turned, maybe of another shape
  bool neighbours = false, inverse = false;
};

class RopeFusion {
 public:
  explicit RopeFusion(Graph& graph) : fusion_(graph, "fuse_rope") {}

  Notes run() {
    for (NodeIndex i = 0; i < fusion_.graph().node_count(); ++i) {
      if (fusion_.node(i).op == "aten.cat.default") look_at(i, "aten.sub.Tensor", false);
      if (fusion_.node(i).op == "aten.stack.default") look_at(i, "aten.add.Tensor", true);
    }
    return fusion_.finish();
  }

 private:
  // A join of two pieces, each made of two products, is worth a look.
  void look_at(NodeIndex join, std::string_view op_of_first, bool inverse) {
    const Node& node = fusion_.node(join);
    const auto* pieces = node.args.empty() ? nullptr : std::get_if<UseList>(&node.args[0]);
    if (pieces == nullptr || pieces->values.size() != 2) return;
    const NodeIndex one = fusion_.maker(pieces->values[0], op_of_first);
    const NodeIndex two = fusion_.maker(pieces->values[1], "aten.add.Tensor");
    if (one == kNoNode || two == kNoNode || one == two || !has_products(one) || !has_products(two)) return;
    Rotation r;
    r.nodes = {join, one, two};
    r.inverse = inverse;
    if (!(inverse ? match_back(one, two, r) : match_forth(one, two, r)))
      return fusion_.leave(join, "the products are not those of a rotation");
    if (!joins_pairs(join, r)) return fusion_.leave(join, "the pieces are joined in another dimension");
    fuse(join, r);
  }

  bool has_products(NodeIndex i) const { return product(i, 0) != kNoNode && product(i, 1) != kNoNode; }
  NodeIndex product(NodeIndex sum, std::size_t argument) const {
    if (number(fusion_.node(sum), 2) != 1) return kNoNode;
    return fusion_.maker(operand(fusion_.node(sum), argument), "aten.mul.Tensor");
  }

  // Whether the sum is a * b + c * d; adds its products to the match.
  bool is_sum_of(NodeIndex sum, ValueId a, ValueId b, ValueId c, ValueId d, Rotation& r) const {
    const NodeIndex one = product(sum, 0), two = product(sum, 1);
    r.nodes.insert(r.nodes.end(), {one, two});
    const auto are = [&](NodeIndex i, NodeIndex j) {
      return is_product(fusion_.node(i), a, b) && is_product(fusion_.node(j), c, d);
    };
    return are(one, two) || are(two, one);
  }

  // first * cos - second * sin, second * cos + first * sin, of an unbound view.
  bool match_forth(NodeIndex one, NodeIndex two, Rotation& r) const {
    const Node& positive = fusion_.node(product(one, 0));
    NodeIndex unbind = fusion_.maker(operand(positive, 0), "aten.unbind.int");
    if (unbind == kNoNode) unbind = fusion_.maker(operand(positive, 1), "aten.unbind.int");
    if (unbind == kNoNode || fusion_.node(unbind).results.size() != 2) return false;
    r.first = fusion_.node(unbind).results[0], r.second = fusion_.node(unbind).results[1];
    r.cos = other_operand(positive, r.first);
    r.sin = other_operand(fusion_.node(product(one, 1)), r.second);
    const NodeIndex view = fusion_.maker(operand(fusion_.node(unbind), 0), "aten.view.default");
    if (view == kNoNode || r.cos == kNoValue || r.sin == kNoValue) return false;
    r.nodes.insert(r.nodes.end(), {unbind, view, product(one, 0), product(one, 1)});
    r.x = operand(fusion_.node(view), 0);
    const auto dim = number(fusion_.node(unbind), 1);
    r.neighbours = dim == -1 || dim == kRank;
    return (r.neighbours || dim == -2 || dim == kRank - 1) &&
           fusion_.type(fusion_.result(view)).sizes.size() == 5 &&
           is_sum_of(two, r.second, r.cos, r.first, r.sin, r);
  }

  // second * sin + first * cos, second * cos + -first * sin, of two slices.
  bool match_back(NodeIndex one, NodeIndex two, Rotation& r) const {
    NodeIndex neg = kNoNode;
    for (std::size_t p = 0; p < 2 && neg == kNoNode; ++p) {
      const Node& negative = fusion_.node(product(two, p));
      const Node& positive = fusion_.node(product(two, 1 - p));
      for (std::size_t o = 0; o < 2 && neg == kNoNode; ++o) {
        neg = fusion_.maker(operand(negative, o), "aten.neg.default");
        r.sin = operand(negative, 1 - o);
      }
      const std::size_t table = fusion_.maker(operand(positive, 0), "aten.slice.Tensor") == kNoNode ? 0 : 1;
      r.cos = operand(positive, table), r.second = operand(positive, 1 - table);
    }
    if (neg == kNoNode || r.sin == kNoValue || r.cos == kNoValue) return false;
    r.first = operand(fusion_.node(neg), 0);
    const NodeIndex low = fusion_.maker(r.first, "aten.slice.Tensor");
    const NodeIndex high = fusion_.maker(r.second, "aten.slice.Tensor");
    if (low == kNoNode || high == kNoNode) return false;
    r.nodes.insert(r.nodes.end(), {neg, low, high});
    r.x = operand(fusion_.node(low), 0);
    return operand(fusion_.node(high), 0) == r.x && are_halves(low, high, r.x) &&
           is_sum_of(one, r.second, r.sin, r.first, r.cos, r) &&
           is_sum_of(two, r.second, r.cos, fusion_.result(neg), r.sin, r);
  }

  bool are_halves(NodeIndex low, NodeIndex high, ValueId whole) const {
    const std::vector<std::int64_t>& sizes = fusion_.type(whole).sizes;
    if (sizes.size() != kRank) return false;
    const auto half = static_cast<double>(sizes[3]) / 2;
    const auto is_half = [&](NodeIndex i, double start) {
      const Node& slice = fusion_.node(i);
      const auto dim = number(slice, 1);
      return (dim == -1 || dim == kRank - 1) && number(slice, 2) == start && number(slice, 4) == 1 &&
             static_cast<double>(fusion_.type(slice.results[0]).sizes[3]) == half;
    };
    return is_half(low, 0) && is_half(high, half);
  }

  // Whether the pieces are put together as pairs lie, and sets how.
  bool joins_pairs(NodeIndex join, Rotation& r) const {
    const auto dim = number(fusion_.node(join), 1);
    if (!r.inverse) return dim == -1 || dim == kRank - 1;
    r.neighbours = dim == -1 || dim == kRank;
    return r.neighbours || dim == -2 || dim == kRank - 1;
  }

  std::vector<std::int64_t> heads(const Rotation& r) const {
    std::vector<std::int64_t> sizes = fusion_.type(r.first).sizes;
    if (sizes.size() == kRank) sizes[3] *= 2;
    return sizes;
  }

  bool has_tables(const Rotation& r, const std::vector<std::int64_t>& sizes) const {
    const TensorType &cos = fusion_.type(r.cos), &sin = fusion_.type(r.sin);
    if (sizes.size() != kRank || cos != sin || cos.sizes.size() != kRank) return false;
    return (cos.sizes[0] == 1 || cos.sizes[0] == sizes[0]) &&
           (cos.dtype == DType::f32 || cos.dtype == DType::f64) &&
           cos == contiguous(cos.dtype, {cos.sizes[0], sizes[1], 1, sizes[3] / 2});
  }

  void fuse(NodeIndex join, Rotation& r) {
    const std::vector<std::int64_t> sizes = heads(r);
    if (!has_tables(r, sizes))
      return fusion_.leave(join, "cos and sin are no tables of all pairs, f32 or f64");
    NodeIndex last = join;
    const bool cast = take_casts(r, last);
    const ValueId y = fusion_.result(last);
    const TensorType made = contiguous(cast ? DType::bf16 : fusion_.type(r.cos).dtype, sizes);
    if (element_count(fusion_.type(y)) != element_count(made) || fusion_.type(r.x).dtype != made.dtype ||
        fusion_.type(y) != contiguous(made.dtype, fusion_.type(y).sizes))
      return fusion_.leave(join, "not bf16 or of the tables' dtype, or not contiguous");
    const bool has_shape = fusion_.type(r.x).sizes == sizes;
    if (!has_shape && !is_contiguous(fusion_.type(r.x)))
      return fusion_.leave(join, "x is neither [B, T, H, D] nor contiguous");
    std::vector<NodeIndex> views;
    if (fusion_.type(y).sizes != sizes && !collect_views(y, views))
      return fusion_.leave(join, "what was stacked is read by another op than a view");
    std::vector<ValueId> results = {y};
    for (NodeIndex view : views) {
      if (fusion_.type(fusion_.result(view)) != made) continue;
      r.nodes.push_back(view);
      results.push_back(fusion_.result(view));
    }
    if (!fusion_.take(r.nodes, results, {r.x, r.cos, r.sin}))
      return fusion_.leave(join, "an inner value has another reader");
    if (!has_shape)
      r.x = fusion_.insert(last, "aten.view.default", {Use{r.x}, sizes}, {contiguous(made.dtype, sizes)},
                           r.x)[0];
    const ValueId turned = fusion_.insert(
        last, "rondo.rope.default", {Use{r.x}, Use{r.cos}, Use{r.sin}, r.neighbours, r.inverse}, {made})[0];
    for (ValueId id : results) fusion_.replace(id, turned);
    fusion_.count(r.inverse ? "rotations back" : "rotations");
  }

  // The cast of bf16 before, and the cast back behind, if both are there and nobody else reads the widened
  // numbers.
  bool take_casts(Rotation& r, NodeIndex& last) const {
    const NodeIndex widen = fusion_.maker(r.x);
    if (widen == kNoNode || !is_cast(fusion_.node(widen), DType::f32)) return false;
    const ValueId narrow = operand(fusion_.node(widen), 0);
    if (fusion_.type(narrow).dtype != DType::bf16) return false;
    std::vector<NodeIndex> nodes = {widen};
    NodeIndex back = fusion_.only_reader(fusion_.result(last));
    if (r.inverse && back != kNoNode && fusion_.node(back).op == "aten.view.default") {
      nodes.push_back(back);
      back = fusion_.only_reader(fusion_.result(back));
    }
    if (back == kNoNode || !is_cast(fusion_.node(back), DType::bf16)) return false;
    nodes.push_back(back);
    r.nodes.insert(r.nodes.end(), nodes.begin(), nodes.end());
    r.x = narrow;
    last = back;
    return true;
  }

  bool collect_views(ValueId id, std::vector<NodeIndex>& views) const {
    views.assign(fusion_.readers(id).begin(), fusion_.readers(id).end());
    for (NodeIndex i : views)
      if (fusion_.node(i).op != "aten.view.default") return false;
    return true;
  }

  Fusion fusion_;
};

}  // namespace

Notes fuse_rope(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  return RopeFusion(graph).run();
}

}  // namespace rondo::ir

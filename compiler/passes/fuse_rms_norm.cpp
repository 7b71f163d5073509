//   forward                                            forward
//     %2 = aten.mul.Tensor(%x, %x)                       %y, %inv = rondo.rms_norm.default(%x, %w, eps)
//     %3 = aten.mean.dim(%2, [-1], true, none)
//     %4 = aten.add.Scalar(%3, eps, 1)
//     %inv = aten.rsqrt.default(%4)
//     %n = aten.mul.Tensor(%x, %inv)
//     %y = aten.mul.Tensor(%n, %w)
//   backward                                       ->  backward
//     sum of %g * %n over the rows                       %gx, %gw = rondo.rms_norm_backward.default(%g, %x,
//     %w, %inv) %a = aten.mul.Tensor(%g, %w) %c = aten.mul.Tensor(%a, %inv) %t = sum of %a * %x over a row *
//     -0.5 * %inv^3 / D * %x %c + other gradients of %x + %t + %t               other gradients of %x + %gx
//
// Where x is bf16, there are casts: of x to f32, of %n and of %x's gradient back.
#include <algorithm>

#include "compiler/analysis/fusion.h"
#include "compiler/passes/passes.h"
#include "ops/rms_norm/rms_norm_math.h"

namespace rondo::ir {
namespace {

constexpr const char* kNorms = "norms";

// A match, as far as it goes.
struct Norm {
  std::vector<NodeIndex> nodes;
  ValueId x = kNoValue, wide_x = kNoValue;  // the same where x is f32 or f64
  ValueId inverse = kNoValue, normalized = kNoValue, weight = kNoValue, y = kNoValue;
  double eps = 0;

  // The backward.
  ValueId grad = kNoValue;                            // of y
  NodeIndex first = kNoNode;                          // the first node that goes
  NodeIndex weight_sum = kNoNode;                     // makes the gradient of the weight
  std::vector<NodeIndex> adds;                        // from %c to the gradient of x
  std::vector<std::pair<NodeIndex, ValueId>> others;  // those of them that add another gradient
  NodeIndex last = kNoNode;                           // makes the gradient of x, the others included
};

class RmsNormFusion {
 public:
  explicit RmsNormFusion(Graph& graph) : fusion_(graph, "fuse_rms_norm") {}

  Notes run() {
    for (NodeIndex i = 0; i < fusion_.graph().node_count(); ++i)
      if (fusion_.node(i).op == "aten.rsqrt.default" && fusion_.node(i).phase == Phase::forward) look_at(i);
    return fusion_.finish();
  }

 private:
  void look_at(NodeIndex rsqrt) {
    Norm n;
    n.nodes.push_back(rsqrt);
    n.inverse = fusion_.result(rsqrt);
    const ValueId under_root = operand(fusion_.node(rsqrt), 0);
    if (fusion_.maker(under_root, "aten.mean.dim") != kNoNode)
      return fusion_.leave(rsqrt, "nothing is added under the root");
    const NodeIndex add = fusion_.maker(under_root, "aten.add.Scalar");
    if (add == kNoNode) return;
    const NodeIndex mean = fusion_.maker(operand(fusion_.node(add), 0), "aten.mean.dim");
    if (mean == kNoNode) return;
    n.nodes.insert(n.nodes.end(), {add, mean});
    n.eps = number(fusion_.node(add), 1).value_or(0);
    if (!match_mean(mean, n)) return fusion_.leave(rsqrt, "not the mean of squares over the last dimension");
    if (!match_product(n))
      return fusion_.leave(rsqrt, "not x * inverse * weight of types that the kernel has");
    const NodeIndex cube = fusion_.find_reader(n.inverse, [](const Node& node) {
      return node.op == "aten.pow.Tensor_Scalar" && number(node, 1) == 3 && node.phase == Phase::backward;
    });
    if (cube == kNoNode) return fuse_forward(rsqrt, n);
    if (!match_weight_gradient(n) || !match_pull(cube, n) || !match_x_gradient(n))
      return fusion_.leave(rsqrt, "the backward looks otherwise");
    fuse_both(rsqrt, n);
  }

  bool is_last_dimension(const Node& node, std::int64_t rank) const {
    if (node.args.size() != 4) return false;
    const auto* dims = std::get_if<std::vector<std::int64_t>>(&node.args[1]);
    return dims != nullptr && dims->size() == 1 && (dims->front() == -1 || dims->front() == rank - 1) &&
           node.args[2] == Argument(true);
  }
  std::int64_t rank(const Norm& n) const {
    return static_cast<std::int64_t>(fusion_.type(n.wide_x).sizes.size());
  }
  std::int64_t width(const Norm& n) const { return fusion_.type(n.wide_x).sizes.back(); }
  // What is computed in.
  DType wide(const Norm& n) const { return fusion_.type(n.wide_x).dtype; }

  bool match_mean(NodeIndex mean, Norm& n) const {
    const NodeIndex square = fusion_.maker(operand(fusion_.node(mean), 0), "aten.mul.Tensor");
    if (square == kNoNode || number(fusion_.node(n.nodes[1]), 2) != 1) return false;
    n.wide_x = operand(fusion_.node(square), 0);
    n.nodes.push_back(square);
    return n.wide_x != kNoValue && operand(fusion_.node(square), 1) == n.wide_x &&
           (wide(n) == DType::f32 || wide(n) == DType::f64) && rank(n) > 0 &&
           is_last_dimension(fusion_.node(mean), rank(n)) &&
           std::holds_alternative<None>(fusion_.node(mean).args[3]);
  }

  static bool is_forward(const Node& node) { return node.phase == Phase::forward; }

  // %n and %y, with the casts of a bf16 x.
  bool match_product(Norm& n) const {
    const NodeIndex scaled = fusion_.find_reader(n.inverse, [&](const Node& node) {
      return is_forward(node) && is_product(node, n.wide_x, n.inverse);
    });
    if (scaled == kNoNode) return false;
    n.nodes.push_back(scaled);
    n.x = n.wide_x;
    n.normalized = fusion_.result(scaled);
    const NodeIndex widen = fusion_.maker(n.wide_x);
    const NodeIndex narrow = fusion_.find_reader(
        n.normalized, [](const Node& node) { return is_forward(node) && is_cast(node, DType::bf16); });
    if (narrow != kNoNode && widen != kNoNode && is_cast(fusion_.node(widen), DType::f32) &&
        fusion_.type(operand(fusion_.node(widen), 0)).dtype == DType::bf16) {
      n.x = operand(fusion_.node(widen), 0);
      n.normalized = fusion_.result(narrow);
      n.nodes.push_back(narrow);
    }
    const NodeIndex weighted = fusion_.find_reader(
        n.normalized, [](const Node& node) { return is_forward(node) && node.op == "aten.mul.Tensor"; });
    if (weighted == kNoNode) return false;
    n.nodes.push_back(weighted);
    n.weight = other_operand(fusion_.node(weighted), n.normalized);
    n.y = fusion_.result(weighted);
    return n.weight != kNoValue && has_types(n);
  }

  bool has_types(const Norm& n) const {
    const TensorType &x = fusion_.type(n.x), &weight = fusion_.type(n.weight), &y = fusion_.type(n.y);
    const bool both_narrow = x.dtype == DType::bf16 && weight.dtype == DType::bf16;
    return (weight.dtype == wide(n) || (weight.dtype == DType::bf16 && wide(n) == DType::f32)) &&
           weight == contiguous(weight.dtype, {width(n)}) && width(n) <= rms_norm::kWidestRow &&
           y == contiguous(both_narrow ? DType::bf16 : wide(n), x.sizes);
  }

  // The sum of %g * %n over the rows, which tells %g.
  bool match_weight_gradient(Norm& n) const {
    const NodeIndex product = fusion_.find_reader(n.normalized, [](const Node& node) {
      return node.phase == Phase::backward && node.op == "aten.mul.Tensor";
    });
    if (product == kNoNode) return false;
    n.grad = other_operand(fusion_.node(product), n.normalized);
    n.weight_sum = fusion_.only_reader(fusion_.result(product));
    if (n.grad == kNoValue || fusion_.type(n.grad).sizes != fusion_.type(n.y).sizes ||
        fusion_.type(n.grad).dtype != fusion_.type(n.y).dtype || n.weight_sum == kNoNode)
      return false;
    const Node& sum = fusion_.node(n.weight_sum);
    if (sum.op != "aten.sum.dim_IntList" || sum.args.size() != 4 ||
        !std::holds_alternative<None>(sum.args[3]))
      return false;
    const auto* dims = std::get_if<std::vector<std::int64_t>>(&sum.args[1]);
    std::vector<std::int64_t> rows;
    for (std::int64_t dim = 0; dim + 1 < rank(n); ++dim) rows.push_back(dim);
    if (dims == nullptr || *dims != rows) return false;
    for (NodeIndex reader : fusion_.readers(sum.results[0]))
      if (fusion_.node(reader).op != "aten.view.default" ||
          fusion_.type(fusion_.result(reader)).sizes != fusion_.type(n.weight).sizes)
        return false;
    n.first = product;
    n.nodes.insert(n.nodes.end(), {product, n.weight_sum});
    return true;
  }

  // %t: cube * (sum of %a * %x * -0.5), spread over the row, / D * %x. Its %a must be %g * %w.
  bool match_pull(NodeIndex cube, Norm& n) {
    const NodeIndex scaled = fusion_.only_reader(fusion_.result(cube));
    if (scaled == kNoNode || fusion_.node(scaled).op != "aten.mul.Tensor") return false;
    const NodeIndex halved =
        fusion_.maker(other_operand(fusion_.node(scaled), fusion_.result(cube)), "aten.mul.Scalar");
    if (halved == kNoNode || number(fusion_.node(halved), 1) != -0.5) return false;
    const NodeIndex sum = fusion_.maker(operand(fusion_.node(halved), 0), "aten.sum.dim_IntList");
    if (sum == kNoNode || !is_last_dimension(fusion_.node(sum), rank(n))) return false;
    const NodeIndex product = fusion_.maker(operand(fusion_.node(sum), 0), "aten.mul.Tensor");
    if (product == kNoNode) return false;
    const NodeIndex spread = fusion_.only_reader(fusion_.result(scaled));
    if (spread == kNoNode || fusion_.node(spread).op != "aten.expand.default") return false;
    const NodeIndex divided = fusion_.only_reader(fusion_.result(spread));
    if (divided == kNoNode || fusion_.node(divided).op != "aten.div.Scalar" ||
        number(fusion_.node(divided), 1) != static_cast<double>(width(n)))
      return false;
    const NodeIndex pull = fusion_.only_reader(fusion_.result(divided));
    if (pull == kNoNode || !is_product(fusion_.node(pull), fusion_.result(divided), n.wide_x)) return false;
    n.nodes.insert(n.nodes.end(), {cube, scaled, halved, sum, product, spread, divided, pull});
    pull_ = fusion_.result(pull);
    of_normalized_ = other_operand(fusion_.node(product), n.wide_x);
    return of_normalized_ != kNoValue && match_product_with_weight(n);
  }

  bool match_product_with_weight(Norm& n) const {
    ValueId id = of_normalized_;
    for (NodeIndex made = fusion_.maker(id); made != kNoNode; made = fusion_.maker(id)) {
      n.nodes.push_back(made);
      if (is_product(fusion_.node(made), n.grad, n.weight)) {
        n.first = std::min(n.first, made);
        return true;
      }
      if (!is_cast(fusion_.node(made), DType::f32) && !is_cast(fusion_.node(made), DType::bf16)) return false;
      id = operand(fusion_.node(made), 0);
    }
    return false;
  }

  // From %c, the sums up to the second %t, and the cast back.
  bool match_x_gradient(Norm& n) const {
    const NodeIndex start = fusion_.find_reader(
        of_normalized_, [&](const Node& node) { return is_product(node, of_normalized_, n.inverse); });
    if (start == kNoNode) return false;
    n.nodes.push_back(start);
    ValueId sum = fusion_.result(start);
    for (int pulls = 0; pulls < 2;) {
      const NodeIndex add = fusion_.only_reader(sum);
      if (add == kNoNode) return false;
      const ValueId other = other_operand(fusion_.node(add), sum);
      if (other == kNoValue || !is_sum(fusion_.node(add), sum, other) ||
          fusion_.type(fusion_.result(add)) != contiguous(wide(n), fusion_.type(n.x).sizes))
        return false;
      if (other == pull_) {
        ++pulls;
      } else {
        // What takes the place of these sums is one of other gradients, which then say its dtype and layout.
        if (fusion_.type(other) != contiguous(wide(n), fusion_.type(n.x).sizes)) return false;
        n.others.emplace_back(add, other);
      }
      n.adds.push_back(add);
      sum = fusion_.result(add);
    }
    n.last = n.adds.back();
    n.nodes.insert(n.nodes.end(), n.adds.begin(), n.adds.end());
    if (n.x == n.wide_x) return true;
    n.last = fusion_.only_reader(sum);
    n.nodes.push_back(n.last);
    return n.others.empty() && n.last != kNoNode && is_cast(fusion_.node(n.last), DType::bf16) &&
           fusion_.type(fusion_.result(n.last)) == contiguous(DType::bf16, fusion_.type(n.x).sizes);
  }

  // --- what stands there instead ---

  // y's new node; returns the inverse.
  ValueId insert_forward(const Norm& n) {
    std::vector<std::int64_t> sizes = fusion_.type(n.x).sizes;
    sizes.back() = 1;
    const std::vector<ValueId> made =
        fusion_.insert(fusion_.maker(n.y), "rondo.rms_norm.default", {Use{n.x}, Use{n.weight}, n.eps},
                       {fusion_.type(n.y), contiguous(wide(n), sizes)});
    fusion_.replace(n.y, made[0]);
    return made[1];
  }

  // The cast of x to f32 goes as well where nobody else reads it.
  void drop_widening(Norm& n) const {
    const auto& readers = fusion_.readers(n.wide_x);
    const bool is_ours = std::all_of(readers.begin(), readers.end(), [&](NodeIndex i) {
      return std::find(n.nodes.begin(), n.nodes.end(), i) != n.nodes.end();
    });
    if (n.x != n.wide_x && is_ours) n.nodes.push_back(fusion_.maker(n.wide_x));
  }

  void fuse_forward(NodeIndex rsqrt, Norm& n) {
    drop_widening(n);
    if (!fusion_.take(n.nodes, {n.y}, {n.x, n.weight}))
      return fusion_.leave(rsqrt, "an inner value has another reader");
    insert_forward(n);
    fusion_.count(kNorms);
  }

  void fuse_both(NodeIndex rsqrt, Norm& n) {
    drop_widening(n);
    std::vector<ValueId> results = {n.y, fusion_.result(n.last)};
    const std::vector<NodeIndex> of_weight = weight_gradients(n, results);
    n.nodes.insert(n.nodes.end(), of_weight.begin(), of_weight.end());
    if (!fusion_.take(n.nodes, results, {n.grad, n.x, n.weight}))
      return fusion_.leave(rsqrt, "an inner value has another reader");
    const ValueId inverse = insert_forward(n);
    const std::vector<ValueId> made = fusion_.insert(
        n.first, "rondo.rms_norm_backward.default", {Use{n.grad}, Use{n.x}, Use{n.weight}, Use{inverse}},
        {contiguous(fusion_.type(n.x).dtype, fusion_.type(n.x).sizes), contiguous(wide(n), {width(n)})});
    give_weight_gradient(of_weight, made[1]);
    give_x_gradient(n, made[0]);
    fusion_.count(std::string(kNorms) + " with their backward");
  }

  // The views of the sum, and the casts of these to f32; adds what they make to `results`.
  std::vector<NodeIndex> weight_gradients(const Norm& n, std::vector<ValueId>& results) const {
    const std::span readers = fusion_.readers(fusion_.result(n.weight_sum));
    std::vector<NodeIndex> nodes(readers.begin(), readers.end());
    for (std::size_t i = 0, views = nodes.size(); i < views; ++i)
      for (NodeIndex reader : fusion_.readers(fusion_.result(nodes[i])))
        if (is_cast(fusion_.node(reader), DType::f32)) nodes.push_back(reader);
    for (NodeIndex i : nodes) results.push_back(fusion_.result(i));
    return nodes;
  }

  // The kernel's gradient is f32, or f64 like the weight; who wanted the rounded one reads a cast of it.
  void give_weight_gradient(const std::vector<NodeIndex>& old, ValueId grad) {
    for (NodeIndex i : old) {
      const ValueId id = fusion_.result(i);
      const DType dtype = fusion_.type(id).dtype;
      const auto reads_rounded = [](const Node& node) { return !is_cast(node, DType::f32); };
      if (dtype == fusion_.type(grad).dtype) {
        fusion_.replace(id, grad);
      } else if (fusion_.find_reader(id, reads_rounded) != kNoNode) {
        fusion_.replace(id, fusion_.insert(i, "aten._to_copy.default",
                                           {Use{grad}, dtype, None{}, None{}, None{}, false, None{}},
                                           {fusion_.type(id)})[0]);
      }
    }
  }

  void give_x_gradient(const Norm& n, ValueId grad) {
    if (n.others.empty()) return fusion_.replace(fusion_.result(n.last), grad);
    ValueId sum = n.others[0].second;
    for (std::size_t i = 1; i < n.others.size(); ++i) {
      fusion_.rewrite(n.others[i].first, {Use{sum}, Use{n.others[i].second}, std::int64_t{1}});
      sum = fusion_.result(n.others[i].first);
    }
    fusion_.rewrite(n.last, {Use{sum}, Use{grad}, std::int64_t{1}});
  }

  Fusion fusion_;
  ValueId pull_ = kNoValue, of_normalized_ = kNoValue;  // of the match at hand: %t and %a
};

}  // namespace

Notes fuse_rms_norm(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  return RmsNormFusion(graph).run();
}

}  // namespace rondo::ir

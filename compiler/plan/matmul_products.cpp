// Finds products whose operands are aligned. Storages begin at multiples of at least 64 bytes, so a
// view is followed back to its storage.
#include "compiler/plan/matmul_products.h"

#include <fmt/format.h>

#include <optional>

#include "compiler/ir/def_use.h"
#include "compiler/ops/op.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kAligned = 8;  // elements of bf16 in 16 bytes
const Argument kOne = std::int64_t{1};

class ProductFinder {
 public:
  explicit ProductFinder(const Graph& graph) : graph_(graph), def_use_(graph) {}

  std::vector<Product> run() const {
    std::vector<Product> products;
    for (NodeIndex i = 0; i < graph_.node_count(); ++i)
      if (std::optional<Product> match = product(i)) products.push_back(std::move(*match));
    return products;
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  std::optional<Product> product(NodeIndex i) const {
    const Node& node = graph_.nodes[i];
    const bool adds = node.op == "aten.addmm.default";
    if (!adds && node.op != "aten.mm.default") return std::nullopt;
    if (node.args.size() != (adds ? 5 : 2) || (adds && (node.args[3] != kOne || node.args[4] != kOne)))
      return std::nullopt;
    const ValueId a = operand(node, adds ? 1 : 0), b = operand(node, adds ? 2 : 1), out = node.results[0];
    const ValueId sum = adds ? operand(node, 0) : out;
    for (const ValueId id : {a, b, sum})
      if (id == kNoValue || !is_matrix_of_bf16(type(id)) || !is_aligned(id)) return std::nullopt;
    if (!is_contiguous(type(out)) || type(sum) != type(out)) return std::nullopt;
    Product product;
    product.node = i;
    product.shape.adds = adds;
    for (int dim : {0, 1}) {
      const auto at = static_cast<std::size_t>(dim);
      product.shape.a_sizes[at] = type(a).sizes[at];
      product.shape.a_strides[at] = type(a).strides[at];
      product.shape.b_sizes[at] = type(b).sizes[at];
      product.shape.b_strides[at] = type(b).strides[at];
    }
    product.key = product_key(graph_, node);
    return product;
  }

  // Returns true for a matrix of bf16 with dense rows or columns.
  static bool is_matrix_of_bf16(const TensorType& x) {
    if (x.dtype != DType::bf16 || x.sizes.size() != 2) return false;
    for (const std::size_t dense : {0, 1})
      if (x.strides[dense] == 1 && x.strides[1 - dense] >= x.sizes[dense] &&
          x.strides[1 - dense] % kAligned == 0)
        return true;
    return false;
  }

  // Returns true if the value begins at a multiple of 16 bytes.
  bool is_aligned(ValueId id) const {
    while (graph_.value(id).views != kNoValue) {
      const Node& node = graph_.nodes[def_use_.maker(id)];
      if (facts(node.op).view == ViewKind::moved_start && !moves_by_multiple(node)) return false;
      id = graph_.value(id).views;
    }
    return true;
  }
  // (self, dim, start, end, step)
  bool moves_by_multiple(const Node& node) const {
    if (node.op != "aten.slice.Tensor" || node.args.size() < 3) return false;
    const auto* dim = std::get_if<std::int64_t>(&node.args.at(1));
    const auto* start = std::get_if<std::int64_t>(&node.args.at(2));
    const TensorType& from = type(operand(node, 0));
    if (dim == nullptr || start == nullptr || *dim < 0 || *dim >= std::ssize(from.strides)) return false;
    return *start * from.strides[static_cast<std::size_t>(*dim)] % kAligned == 0;
  }

  const Graph& graph_;
  DefUse def_use_;
};

}  // namespace

std::string product_key(const Graph& graph, const Node& node) {
  const OpKind kind = functional_facts(node.op).kind;
  const bool adds = kind == OpKind::added_product;
  if (!adds && kind != OpKind::product) return "";
  const std::size_t first = adds ? 1 : 0;
  const auto type = [&](std::size_t argument) { return print(graph.value(operand(node, argument)).type); };
  return fmt::format("{}({},{})", adds ? "addmm" : "mm", type(first), type(first + 1));
}

std::vector<Product> matmul_products(const Graph& graph) { return ProductFinder(graph).run(); }

}  // namespace rondo::ir

// Matrix products, also by group and in float8. Contracting over a sharded dimension gives a
// partial sum. An axis shards the result along one dimension at most.
#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/ops/price.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

// The dimension of the result, or kContracted, for each dimension of a [.., M, K] and b [.., K, N].
constexpr int kContracted = -1;
struct Dims {
  int left[3];
  int right[3];
};

Placement contract(const Placement& a, const Placement& b, const Dims& dims) {
  const auto cut = [](const Placement& p) { return p.kind == Kind::sharded; };
  if (a.kind == Kind::inner || b.kind == Kind::inner)
    throw Refused{"it multiplies a sharded tensor that is flattened"};
  if ((cut(a) && a.dim > 2) || (cut(b) && b.dim > 2)) throw Refused{"its operands are not matrices"};
  const int left = cut(a) ? dims.left[a.dim] : 0, right = cut(b) ? dims.right[b.dim] : 0;
  if (cut(a) && cut(b)) {
    if (left == kContracted && right == kContracted) return kPartialSum;
    if (left == right && left != kContracted) return sharded(left);  // of the batch
    throw Refused{"each rank multiplies different rows by different columns"};
  }
  if ((cut(a) && left == kContracted) || (cut(b) && right == kContracted)) {
    const Placement& other = cut(a) ? b : a;
    if (other.kind != Kind::zero)
      throw Refused{"it contracts over a dimension that is sharded in one operand only"};
  }
  Placement moved_a = a, moved_b = b;
  if (cut(a)) moved_a.dim = static_cast<std::int8_t>(left);
  if (cut(b)) moved_b.dim = static_cast<std::int8_t>(right);
  return product_of(moved_a, moved_b);
}

constexpr Dims kMatrices = {{0, kContracted}, {kContracted, 1}};
constexpr Dims kBatches = {{0, 1, kContracted}, {0, kContracted, 2}};

Placement mm(const OnAxis& axis, std::size_t) {
  return contract(axis.operand(0), axis.operand(1), kMatrices);
}
Placement bmm(const OnAxis& axis, std::size_t) {
  return contract(axis.operand(0), axis.operand(1), kBatches);
}
Placement addmm(const OnAxis& axis, std::size_t) {  // (sum or bias, a, b, ...)
  Placement bias = axis.operand(0);
  if (bias.kind == Kind::sharded && axis.type(0).sizes.size() == 1) bias.dim = 1;
  return sum_of(bias, contract(axis.operand(1), axis.operand(2), kMatrices));
}

Placement baddbmm(const OnAxis& axis, std::size_t) {  // (sum, a, b, ...)
  return sum_of(axis.operand(0), contract(axis.operand(1), axis.operand(2), kBatches));
}

// Multiplies rows by expert [R, K] by the matrices of the experts. A rank's rows for its own
// experts are local.
Placement rows_by_expert(const Placement& a, const Placement& b, const Dims& dims) {
  if (b == sharded(0)) {
    if (a.kind == Kind::local || a.kind == Kind::zero) return a;
    throw Refused{"it multiplies the matrices of this rank's experts by rows of other experts"};
  }
  return contract(a, b, dims);
}

// Multiplies two matrices whose contracted dimension is divided into runs, with a result for each
// run. Local runs are those of a rank's own experts.
Placement runs_of_inner(const Placement& a, const Placement& b, const Dims& dims) {
  if (a.kind == Kind::local || b.kind == Kind::local) return product_of(a, b), sharded(0);
  return contract(a, b, dims);
}

// Multiplies rows by the matrices of the experts [E, K, N], or by runs of the contracted dimension.
Placement grouped_mm(const OnAxis& axis, std::size_t) {
  const Placement a = axis.operand(0), b = axis.operand(1);
  if (axis.type(1).sizes.size() == 2) return runs_of_inner(a, b, {{1, kContracted}, {kContracted, 2}});
  return rows_by_expert(a, b, {{0, kContracted}, {0, kContracted, 1}});
}

// Returns 2 * (rows * inner) * columns for a [(G,) M, K] times b [(G,) K, N]. A grouped product of
// [M, K] and [G, K, N] assigns each row to one group. One of [M, K] and [K, N] divides K into
// groups. Neither multiplies by G.
template <std::size_t First>
double product_flops(const Graph& graph, const Node& node) {
  const auto a = sizes_of(graph, operand(node, First)), b = sizes_of(graph, operand(node, First + 1));
  return b.empty() ? 0 : 2 * elements(a) * static_cast<double>(b.back());
}

// `right` is the position of the second matrix, or of the matrices of the groups.
NodeCost product_cost(const Priced& p, double peak, std::size_t right = 1) {
  const TensorType& result = p.type(p.node.results[0]);
  const auto weight = sizes_of(p.graph, operand(p.node, right));
  ProductShape shape;
  // Either the result or the weight of a grouped product has a part for each group.
  if (result.sizes.size() == 3) {
    shape.groups = static_cast<double>(result.sizes[0]);
  } else if (weight.size() == 3) {
    shape.groups = static_cast<double>(weight[0]);
  }
  shape.n = result.sizes.empty() ? 1 : static_cast<double>(result.sizes.back());
  shape.m = static_cast<double>(element_count(result)) / shape.n / shape.groups;
  shape.k = p.flops / (2 * shape.groups * shape.m * shape.n);
  return {product_seconds(shape, peak, p.device), CostKind::matmul};
}
NodeCost product_cost(const Priced& p) { return product_cost(p, p.peak); }

// --- float8 ---

// rondo.quantize_float8 (x, block_rows, block_columns, dtype, power_of_two) -> values, scales. A
// block of 0 covers the whole dimension on the rank. Blocks are of the last two dimensions.
struct Quantized {
  ValueId x;
  std::int64_t block[2];

  explicit Quantized(const Node& node) : x(operand(node, 0)), block{integer(node, 1), integer(node, 2)} {}
  // True if the numbers are read once more for their maximum before they are rounded, in a separate
  // launch: they share a scale over more than 128 elements and are not dense rows.
  bool is_read_twice(const Graph& graph) const {
    const TensorType& type = graph.value(x).type;
    return block[1] == 0 && (block[0] != 1 || type.strides.empty() || type.strides.back() != 1);
  }
};

// Scales of blocks that cover the whole of a sharded dimension are local.
Placement of_quantized(const Placement& operand, const std::int64_t (&block)[2], int dims, std::size_t i) {
  const Placement x = nonlinear(operand);
  if (x.kind == Kind::inner) throw Refused{"it needs a matrix, but its operand is flattened"};
  if (i == 0 || x.kind != Kind::sharded) return x;
  const int dim = x.dim - (dims - 2);
  return dim >= 0 && block[dim] == 0 ? kLocal : x;
}

Placement quantize_float8(const OnAxis& axis, std::size_t i) {
  const Quantized quantized(axis.node);
  return of_quantized(axis.of(quantized.x), quantized.block, static_cast<int>(axis.type(0).sizes.size()), i);
}

// rondo.quantize_nvfp4 (x, squares, rotate, stream) -> values, scales, which depend on all of the
// rank's matrix.
Placement quantize_nvfp4(const OnAxis& axis, std::size_t i) {
  return of_quantized(axis.operand(0), {0, 0}, 2, i);
}

// Numbers are read once more for their maximum.
double nvfp4_bytes(const Graph& graph, const Node& node) {
  return 2 * operand_bytes(graph, node) + result_bytes(graph, node);
}

// rondo.largest_magnitude (x) -> [1].
Placement largest_magnitude(const OnAxis& axis, std::size_t) {
  const Placement x = nonlinear(axis.operand(0));
  return x.kind == Kind::sharded || x.kind == Kind::inner ? kPartialMax : x;
}

// rondo.quantize_float8_by (x, largest, dtype, power_of_two) -> values, scale. Ranks that do not
// reduce the maximum have scales of their own.
Placement quantize_float8_by(const OnAxis& axis, std::size_t i) {
  const Placement x = nonlinear(axis.operand(0)), largest = axis.operand(1);
  const bool sharded = x.kind == Kind::sharded || x.kind == Kind::inner;
  if (sharded && largest.kind == Kind::partial_max) return i == 0 ? x : kLocal;
  if (x == kReplicated && largest != kReplicated)
    throw Refused{"its numbers are replicated, but its largest magnitude is \"" + print(largest) + "\""};
  return i == 0 ? x : nonlinear(largest);
}

Placement transpose_float8(const OnAxis& axis, std::size_t) {
  Placement p = axis.operand(0);
  if (p.kind == Kind::inner) throw Refused{"it needs a matrix, but its operand is flattened"};
  if (p.kind == Kind::sharded) p.dim = static_cast<std::int8_t>(1 - p.dim);
  return p;
}

// rondo.quantize_float8_runs (x, ends, block_columns) -> values, scales of rows or parts of rows.
Placement quantize_float8_runs(const OnAxis& axis, std::size_t i) {
  return of_quantized(axis.operand(0), {1, integer(axis.node, 2)}, 2, i);
}

// rondo.pad_runs (x, ends, multiple) -> padded, padded_ends. Each rank pads its own runs.
Placement pad_runs(const OnAxis& axis, std::size_t i) {
  const Placement x = axis.operand(0);
  if (x.kind == Kind::inner) throw Refused{"it needs a matrix, but its operand is flattened"};
  return i == 0 ? x : axis.operand(1);
}

// rondo.quantize_float8_columns (x [P, K], ends) -> values [K, P], scales of a rank's own rows.
Placement quantize_float8_columns(const OnAxis& axis, std::size_t i) {
  Placement p = of_quantized(axis.operand(0), {0, 1}, 2, i);
  if (p.kind == Kind::sharded) p.dim = static_cast<std::int8_t>(1 - p.dim);
  return p;
}

double quantized_bytes(const Graph& graph, const Node& node) {
  const Quantized quantized(node);
  const double once = operand_bytes(graph, node) + result_bytes(graph, node);
  return quantized.is_read_twice(graph) ? once + touched_bytes(graph.value(quantized.x).type) : once;
}

// Rows of scales of 128 x 128 are padded to a multiple of 4; a second launch fills the padding.
std::int64_t quantized_launches(const Graph& graph, const Node& node) {
  const Quantized quantized(node);
  const std::vector<std::int64_t>& sizes = graph.value(quantized.x).type.sizes;
  const bool has_padding =
      quantized.block[1] != 0 && quantized.block[0] != 1 && !sizes.empty() && sizes.back() % (4 * 128) != 0;
  return has_padding || quantized.is_read_twice(graph) ? 2 : 1;
}

// rondo.float8_mm (a [M, K], scale_a, b [N, K], scale_b, dtype, fast_accumulation, emulate): a
// times the transpose of b.
struct Float8Product {
  ValueId values[2], scales[2];
  bool emulates;
};
// The product is emulated if the last argument is true.
Float8Product read_float8(const Node& node) {
  const auto id = [&](std::size_t position) { return operand(node, position); };
  return {{id(0), id(2)}, {id(1), id(3)}, node.args.back() == Argument(true)};
}

void require_scales_of_values(const OnAxis& axis, const Float8Product& product) {
  for (const std::size_t i : {0, 1}) {
    const Placement p = axis.of(product.values[i]), scales = axis.of(product.scales[i]);
    if (scales != p && !(p.kind == Kind::sharded && scales == kLocal))
      throw Refused{"its scales are not sharded like its values: \"" + print(scales) + "\" and \"" +
                    print(p) + "\""};
  }
}

Placement float8_mm(const OnAxis& axis, std::size_t) {
  const Float8Product product = read_float8(axis.node);
  require_scales_of_values(axis, product);
  return contract(axis.of(product.values[0]), axis.of(product.values[1]),
                  {{0, kContracted}, {1, kContracted}});
}

double float8_flops(const Graph& graph, const Node& node) {
  const Float8Product product = read_float8(node);
  const auto a = sizes_of(graph, product.values[0]), b = sizes_of(graph, product.values[1]);
  return b.empty() ? 0 : 2 * elements(a) * static_cast<double>(b.front());
}

// `right`: the position of the second matrix.
NodeCost float8_cost(const Priced& p, std::size_t right) {
  const Float8Product product = read_float8(p.node);
  if (product.emulates) return product_cost(p, p.device.peak_fp32_flops_per_s, right);
  double fraction = p.device.float8_fraction;
  for (const std::size_t i : {0, 1}) {
    const TensorType &values = p.type(product.values[i]), &scales = p.type(product.scales[i]);
    if (scales.sizes.empty() || scales.sizes.back() <= 1) continue;
    const std::int64_t piece = element_count(values) / element_count(scales);
    if (piece == 16) return product_cost(p, p.device.peak_nvfp4_flops_per_s * fraction, right);
    fraction = piece == 32 ? p.device.float8_mx_fraction : p.device.float8_blocks_fraction;
  }
  return product_cost(p, p.device.peak_float8_flops_per_s * fraction, right);
}
NodeCost float8_mm_cost(const Priced& p) { return float8_cost(p, 1); }

// rondo.float8_grouped_mm (a [R, K], scale_a, b [E, N, K], scale_b, ends, dtype, fast_accumulation,
// emulate), or of runs of columns: a [M, R], b [N, R].
Placement float8_grouped_mm(const OnAxis& axis, std::size_t) {
  const Float8Product product = read_float8(axis.node);
  require_scales_of_values(axis, product);
  const Placement a = axis.of(product.values[0]), b = axis.of(product.values[1]);
  if (axis.type(2).sizes.size() == 2) return runs_of_inner(a, b, {{1, kContracted}, {2, kContracted}});
  return rows_by_expert(a, b, {{0, kContracted}, {0, 1, kContracted}});
}

double float8_grouped_flops(const Graph& graph, const Node& node) {
  const auto a = sizes_of(graph, operand(node, 0)), b = sizes_of(graph, operand(node, 2));
  return b.size() < 2 ? 0 : 2 * elements(a) * static_cast<double>(b[b.size() - 2]);
}

NodeCost float8_grouped_cost(const Priced& p) { return float8_cost(p, 2); }

constexpr Op product(Op op, double (*flops)(const Graph&, const Node&) = product_flops<0>) {
  op.flops = flops;
  op.cost = product_cost;
  return op;
}
constexpr Op added(Op op) { return product(op, product_flops<1>); }

constexpr Op kProductOps[] = {
    product({.name = "aten._grouped_mm.default"}),
    added({.name = "aten.addmm.default", .overwritten = 1, .shard = addmm, .kind = OpKind::added_product}),
    added({.name = "aten.addmm_.default"}),
    added({.name = "aten.baddbmm.default", .shard = baddbmm}),
    product({.name = "aten.bmm.default", .shard = bmm}),
    product({.name = "aten.mm.default", .of_linear = true, .shard = mm, .kind = OpKind::product}),
    added({.name = "rondo.addmm.default",
           .signature = {3, 4, 1},
           .overwritten = 1,
           .shard = addmm,
           .kind = OpKind::added_product}),
    added({.name = "rondo.addmm_.default", .signature = {3, 4, 1}}),
    {.name = "rondo.float8_grouped_mm.default",
     .signature = {5, 8, 1},
     .of_experts = true,
     .shard = float8_grouped_mm,
     .flops = float8_grouped_flops,
     .cost = float8_grouped_cost},
    {.name = "rondo.float8_mm.default",
     .signature = {4, 7, 1},
     .of_linear = true,
     .shard = float8_mm,
     .flops = float8_flops,
     .cost = float8_mm_cost},
    product({.name = "rondo.grouped_mm.default",
             .signature = {3, 3, 1},
             .of_experts = true,
             .shard = grouped_mm}),
    {.name = "rondo.largest_magnitude.default",
     .signature = {1, 1, 1},
     .shard = largest_magnitude,
     .launches = 2},
    product({.name = "rondo.mm.default", .signature = {2, 3, 1}, .shard = mm, .kind = OpKind::product}),
    {.name = "rondo.pad_runs.default",
     .signature = {2, 3, 2},
     .of_experts = true,
     .shard = pad_runs,
     .launches = 16},
    {.name = "rondo.quantize_float8.default",
     .signature = {1, 5, 2},
     .shard = quantize_float8,
     .bytes = quantized_bytes,
     .count_launches = quantized_launches},
    {.name = "rondo.quantize_float8_by.default",
     .signature = {2, 4, 2},
     .shard = quantize_float8_by,
     .keeps_owner = true},
    {.name = "rondo.quantize_float8_columns.default",
     .signature = {2, 2, 2},
     .of_experts = true,
     .shard = quantize_float8_columns,
     .launches = 16},
    {.name = "rondo.quantize_float8_runs.default",
     .signature = {2, 3, 2},
     .of_experts = true,
     .shard = quantize_float8_runs},
    {.name = "rondo.quantize_nvfp4.default",
     .signature = {1, 4, 2},
     .shard = quantize_nvfp4,
     .bytes = nvfp4_bytes,
     .launches = 2},
    {.name = "rondo.transpose_float8.default",
     .signature = {1, 1, 1},
     .shard = transpose_float8,
     .keeps_owner = true},
};

}  // namespace

std::span<const Op> product_ops() { return kProductOps; }

}  // namespace rondo::ir

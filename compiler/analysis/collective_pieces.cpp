// Emits the nodes of the pieces with their places. The slices and starts of a gather are at the old
// start, its waits and products at the last of the old products, where all weights exist. The
// products and starts of a reduce-scatter are at its old start, its waits at the old wait. The
// caller inserts the nodes and sorts them by these places (compiler/analysis/schedule.h).
#include "compiler/analysis/collective_pieces.h"

#include <algorithm>
#include <map>

#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kCat = "aten.cat.default", kQuantize = "rondo.quantize_float8.default",
                           kFloat8Product = "rondo.float8_mm.default";

// Returns a node of the phase and module of another.
Node like(const Node& other, std::string_view op, std::vector<Argument> args) {
  return {.op = std::string(op),
          .args = std::move(args),
          .results = {},
          .phase = other.phase,
          .module = other.module,
          .origin = {}};
}

}  // namespace

CollectiveCutter::CollectiveCutter(Graph& graph, std::string_view origin)
    : graph_(graph),
      origin_(origin),
      waits_(waits_of_starts(graph)),
      def_use_(graph),
      keep_(graph.nodes.size(), true) {}

std::optional<CollectivePieces> CollectiveCutter::cut(NodeIndex start, std::int64_t pieces) {
  if (waits_[start] == kNoNode) return std::nullopt;
  if (is_collective(graph_.nodes[start], CollectiveKind::all_gather)) return cut_gather(start, pieces);
  return cut_reduce_scatter(start, pieces);
}

void CollectiveCutter::accept(const CollectivePieces& pieces) {
  for (const NodeIndex i : pieces.dropped) keep_[static_cast<std::size_t>(i)] = false;
}

// Appends the products of gathered rows. Returns whether other nodes read the rows.
bool CollectiveCutter::add_products(ValueId rows, Phase phase, std::vector<RowProduct>& products) const {
  bool has_other_readers = false;
  for (const NodeIndex i : def_use_.readers(rows)) {
    const Node& node = graph_.nodes[i];
    if (facts(node.op).kind == OpKind::product && is_left_operand(rows, i, phase, 1)) {
      products.push_back({i});
    } else if (node.op == kQuantize && integer(node, 1) == 1 && feeds_products_only(node, phase)) {
      for (const NodeIndex k : def_use_.readers(node.results[0])) products.push_back({k, i});
    } else {
      has_other_readers = true;
    }
  }
  return has_other_readers;
}
bool CollectiveCutter::is_left_operand(ValueId id, NodeIndex product, Phase phase, std::size_t right) const {
  const Node& node = graph_.nodes[product];
  return operand(node, 0) == id && operand(node, right) != id && node.phase == phase &&
         keep_[static_cast<std::size_t>(product)];
}
bool CollectiveCutter::feeds_products_only(const Node& quantization, Phase phase) const {
  const ValueId values = quantization.results[0], scales = quantization.results[1];
  const auto by_value = def_use_.readers(values), by_scale = def_use_.readers(scales);
  return quantization.phase == phase &&
         std::equal(by_value.begin(), by_value.end(), by_scale.begin(), by_scale.end()) &&
         std::all_of(by_value.begin(), by_value.end(), [&](NodeIndex i) {
           return graph_.nodes[i].op == kFloat8Product && operand(graph_.nodes[i], 1) == scales &&
                  is_left_operand(values, i, phase, 2);
         });
}

std::optional<CollectivePieces> CollectiveCutter::cut_gather(NodeIndex start, std::int64_t pieces) {
  const Node gather = graph_.nodes[start];
  const NodeIndex wait = waits_[start];
  const ValueId x = operand(gather, 0), whole = graph_.nodes[wait].results[0];
  if (type(x).sizes.size() != 2) return std::nullopt;
  std::vector<RowProduct> products;
  const bool has_other_readers = add_products(whole, gather.phase, products);
  const std::int64_t ranks = collective_of(gather)->ranks, columns = type(x).sizes[1];
  const std::int64_t rows = type(x).sizes[0] / pieces;  // of a rank in a piece
  if (products.empty() || type(x).sizes[0] % pieces != 0 ||
      (pieces > 1 && ranks * rows % kRowsOrColumnsOfPieces != 0))
    return std::nullopt;

  CollectivePieces cut{.nodes = {}, .places = {}, .dropped = {start, wait}, .replaced = {}, .first = start};
  for (const RowProduct& product : products) {
    cut.last = std::max(cut.last, product.node);
    cut.dropped.push_back(product.node);
    if (product.quantization != kNoNode) cut.dropped.push_back(product.quantization);
  }
  std::vector<ValueId> started;
  for (std::int64_t i = 0; i < pieces; ++i) {
    Node piece = gather;
    piece.args[0] = Use{slice(cut, {start, 0}, gather, x, 0, i * rows, (i + 1) * rows)};
    started.push_back(
        emit(cut, {start, 0}, std::move(piece), contiguous(type(x).dtype, {ranks * rows, columns})));
  }
  const Place place{cut.last, 0};
  std::vector<UseList> results(products.size() + 1);  // by product, then the gathered rows
  const auto by_rank = [&](const Node& other, ValueId id) {
    return view(cut, place, other, id, {ranks, rows, type(id).sizes[1]});
  };
  for (const ValueId id : started) {
    const ValueId arrived = emit(cut, place, like(graph_.nodes[wait], kWaitTensor, {Use{id}}), type(id), id);
    if (has_other_readers) results.back().values.push_back(by_rank(gather, arrived));
    std::map<NodeIndex, std::vector<ValueId>> quantized;
    for (std::size_t k = 0; k < products.size(); ++k) {
      Node product = graph_.nodes[products[k].node];
      if (const NodeIndex i = products[k].quantization; i == kNoNode) {
        product.args[0] = Use{arrived};
      } else {
        std::vector<ValueId>& parts = quantized[i];
        if (parts.empty()) parts = quantize(cut, place, i, arrived, ranks * rows);
        product.args[0] = Use{parts[0]};
        product.args[1] = Use{parts[1]};
      }
      const TensorType result = type(product.results[0]);
      const ValueId y = emit(cut, place, product, contiguous(result.dtype, {ranks * rows, result.sizes[1]}));
      results[k].values.push_back(by_rank(product, y));
    }
  }
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (results[k].values.empty()) continue;
    const Node& node = graph_.nodes[k < products.size() ? products[k].node : wait];
    const TensorType result = type(node.results[0]);
    const ValueId joined = emit(cut, place, like(node, kCat, {std::move(results[k]), std::int64_t{1}}),
                                contiguous(result.dtype, {ranks, pieces * rows, result.sizes[1]}));
    cut.replaced.emplace_back(node.results[0], view(cut, place, node, joined, result.sizes));
  }
  return cut;
}

// Emits a quantization of some of the rows: values and scales.
std::vector<ValueId> CollectiveCutter::quantize(CollectivePieces& cut, Place place, NodeIndex quantization,
                                                ValueId part, std::int64_t rows) {
  Node node = graph_.nodes[quantization];
  node.args[0] = Use{part};
  std::vector<TensorType> types;
  for (const ValueId id : node.results) {
    TensorType& result = types.emplace_back(type(id));
    result.sizes[0] = rows;
    if (result.strides[0] == 1) result.strides[1] = rows;  // scales are column-major
  }
  return emit_all(cut, place, std::move(node), std::move(types));
}

std::optional<CollectivePieces> CollectiveCutter::cut_reduce_scatter(NodeIndex start, std::int64_t pieces) {
  const Node scatter = graph_.nodes[start];
  const ValueId sum = operand(scatter, 0);
  if (!is_collective(scatter, CollectiveKind::reduce_scatter) || type(sum).sizes.size() != 2)
    return std::nullopt;
  const std::int64_t columns = type(sum).sizes[1], width = columns / pieces;
  if (columns % pieces != 0 || (pieces > 1 && width % kRowsOrColumnsOfPieces != 0)) return std::nullopt;
  const NodeIndex wait = waits_[start];
  CollectivePieces cut{
      .nodes = {}, .places = {}, .dropped = {}, .replaced = {}, .first = start, .last = wait};
  if (!add_terms(sum, start, width, cut)) return std::nullopt;
  cut.first = *std::min_element(cut.dropped.begin(), cut.dropped.end());
  cut.dropped.insert(cut.dropped.end(), {start, wait});
  const TensorType result = type(graph_.nodes[wait].results[0]);
  const TensorType part = contiguous(result.dtype, {result.sizes[0], width});
  std::vector<ValueId> started;
  for (std::int64_t i = 0; i < pieces; ++i) {
    Node piece = scatter;
    piece.args[0] = Use{columns_of(cut, {start, 0}, sum, i * width, (i + 1) * width)};
    started.push_back(emit(cut, {start, 0}, std::move(piece), part));
  }
  UseList arrived;
  for (const ValueId id : started)
    arrived.values.push_back(
        emit(cut, {wait, 0}, like(graph_.nodes[wait], kWaitTensor, {Use{id}}), part, id));
  const ValueId joined =
      emit(cut, {wait, 0}, like(scatter, kCat, {std::move(arrived), std::int64_t{1}}), result);
  cut.replaced.emplace_back(graph_.nodes[wait].results[0], joined);
  return cut;
}

// Adds the nodes of a sum of products to those that a cut into columns drops. Returns false if a
// term is no product that can be cut, or if another node than `reader` reads the sum or a part.
bool CollectiveCutter::add_terms(ValueId id, NodeIndex reader, std::int64_t width,
                                 CollectivePieces& cut) const {
  const NodeIndex i = def_use_.maker(id);
  if (i == kNoNode || !keep_[static_cast<std::size_t>(i)] || def_use_.only_reader(id) != reader) return false;
  const Node& node = graph_.nodes[i];
  if (node.phase != graph_.nodes[reader].phase || !is_contiguous(type(id))) return false;
  cut.dropped.push_back(i);
  const auto has_terms = [&](std::size_t k) {
    return operand(node, k) != kNoValue && type(operand(node, k)) == type(id) &&
           add_terms(operand(node, k), i, width, cut);
  };
  if (node.op == kFloat8Product) return width % columns_of_scale(node) == 0;
  switch (facts(node.op).kind) {
    case OpKind::product:
      return true;
    case OpKind::added_product:
      return has_terms(0);
    case OpKind::sum:
      return node.op == "aten.add.Tensor" && has_terms(0) && has_terms(1);
    default:
      return false;
  }
}

// Returns how many columns of a float8 product share a scale; 1 if all do.
std::int64_t CollectiveCutter::columns_of_scale(const Node& product) const {
  const std::int64_t scales = type(operand(product, 3)).sizes[0];
  return scales == 1 ? 1 : type(operand(product, 2)).sizes[0] / scales;
}

// Emits columns [begin, end) of a sum of products.
ValueId CollectiveCutter::columns_of(CollectivePieces& cut, Place place, ValueId id, std::int64_t begin,
                                     std::int64_t end) {
  Node node = graph_.nodes[def_use_.maker(id)];
  const OpKind kind = facts(node.op).kind;
  const std::size_t terms = kind == OpKind::sum ? 2 : kind == OpKind::added_product ? 1 : 0;
  for (std::size_t k = 0; k < terms; ++k)
    node.args[k] = Use{columns_of(cut, place, operand(node, k), begin, end)};
  const auto take = [&](std::size_t k, std::int64_t dim, std::int64_t each) {
    node.args[k] = Use{slice(cut, place, node, operand(node, k), dim, begin / each, end / each)};
  };
  if (node.op == kFloat8Product) {
    const std::int64_t each = columns_of_scale(node);
    take(2, 0, 1);
    if (type(operand(node, 3)).sizes[0] > 1) take(3, 0, each);
  } else if (kind != OpKind::sum) {
    take(terms + 1, 1, 1);
  }
  return emit(cut, place, std::move(node), contiguous(type(id).dtype, {type(id).sizes[0], end - begin}));
}

std::vector<ValueId> CollectiveCutter::emit_all(CollectivePieces& cut, Place place, Node node,
                                                std::vector<TensorType> types, ValueId views) {
  node.results.clear();
  for (TensorType& type : types) node.results.push_back(graph_.add_value({std::move(type), views, kNoValue}));
  node.origin = std::string(origin_);
  cut.nodes.push_back(std::move(node));
  cut.places.push_back(place);
  return cut.nodes.back().results;
}
ValueId CollectiveCutter::emit(CollectivePieces& cut, Place place, Node node, TensorType type,
                               ValueId views) {
  return emit_all(cut, place, std::move(node), {std::move(type)}, views)[0];
}
ValueId CollectiveCutter::slice(CollectivePieces& cut, Place place, const Node& other, ValueId of,
                                std::int64_t dim, std::int64_t begin, std::int64_t end) {
  TensorType part = type(of);
  part.sizes[static_cast<std::size_t>(dim)] = end - begin;
  return emit(cut, place, like(other, "aten.slice.Tensor", {Use{of}, dim, begin, end, std::int64_t{1}}),
              std::move(part), of);
}
ValueId CollectiveCutter::view(CollectivePieces& cut, Place place, const Node& other, ValueId of,
                               std::vector<std::int64_t> sizes) {
  TensorType viewed = contiguous(type(of).dtype, sizes);
  return emit(cut, place, like(other, "aten.view.default", {Use{of}, std::move(sizes)}), std::move(viewed),
              of);
}

}  // namespace rondo::ir

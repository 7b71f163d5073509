// Cross-entropy of logits, and of the head in chunks of rows. A rank has whole rows of logits, or a
// part of the vocabulary with statistics that ranks exchange.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "compiler/ops/op.h"
#include "compiler/ops/placements.h"
#include "compiler/ops/price.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

// Returns the placement of a sum over rows of a function of each row.
Placement over_rows(const Placement& rows) { return rows == sharded(0) ? kPartialSum : rows; }

// (logits, labels, ignored) -> the sum of all losses, and two statistics of each row for the
// backward.
Placement cross_entropy(const OnAxis& axis, std::size_t i) {
  const Placement rows =
      require_whole_rows(product_of(nonlinear(axis.operand(0)), nonlinear(axis.operand(1))));
  return i == 0 ? over_rows(rows) : rows;
}
// (grad, logits, labels, largest, sum, ignored)
Placement cross_entropy_backward(const OnAxis& axis, std::size_t) {
  Placement rows = require_whole_rows(nonlinear(axis.operand(1)));
  for (const std::size_t i : {2, 3, 4}) rows = product_of(rows, nonlinear(axis.operand(i)));
  return product_of(axis.operand(0), rows);
}

// A head with its loss: rows h [N, D] times a weight [V, D], then the loss of each row. The logits
// of a chunk are the last result. rondo.linear_cross_entropy (h, weight, labels, gradient, ignored,
// chunk_rows), _losses (h, weight, labels, ignored, chunk_rows), _statistics (h, weight, place,
// chunk_rows), _gradients (h, weight, place, largest, sum, gradient, place_gradient, chunk_rows).
struct Head {
  ValueId h, weight, place, largest, sum;
};
Head read_head(const Node& node) {
  const auto id = [&](std::size_t position) { return operand(node, position); };
  return {.h = id(0), .weight = id(1), .place = id(2), .largest = id(3), .sum = id(4)};
}

// Returns the placement of the rows of h. Throws Refused unless the weight is replicated, and the
// arguments that have one value per row are of the same rows.
Placement rows_of_head(const OnAxis& axis, std::initializer_list<std::size_t> per_row) {
  require_replicated(axis, 1, "weight");
  const Placement rows = require_whole_rows(nonlinear(axis.operand(0)));
  for (const std::size_t i : per_row)
    if (const Placement p = nonlinear(axis.operand(i)); p != rows)
      throw Refused{"argument " + std::to_string(i) + " is \"" + print(p) + "\", but the rows of h are \"" +
                    print(rows) + "\""};
  return rows;
}
// Losses and gradients of a whole vocabulary: losses, gradients of h and weight, workspace. All
// ranks scale their losses by one number.
Placement scaled_losses(const OnAxis& axis, std::size_t i) {
  const Placement rows = rows_of_head(axis, {2});
  require_replicated(axis, 3, "gradient");
  return i == 2 ? over_rows(rows) : rows;
}
// Losses of a whole vocabulary, workspace.
Placement losses(const OnAxis& axis, std::size_t) { return rows_of_head(axis, {2}); }
// Returns true if the rank has a part of the vocabulary. `place` is then the place of each row's
// label in it. Throws Refused(otherwise) unless the values of `replicated` are replicated.
bool has_part_of_vocabulary(const OnAxis& axis, const Head& head, const char* otherwise,
                            std::initializer_list<ValueId> replicated) {
  if (axis.of(head.weight) != sharded(0)) return false;
  for (const ValueId id : replicated)
    if (axis.of(id) != kReplicated) throw Refused{otherwise};
  if (axis.of(head.place).kind != Placement::Kind::local)
    throw Refused{"it looks up labels of the whole vocabulary in one part of it"};
  return true;
}
// Results: largest, sum, logit, workspace. Sums are scaled to the maximum of all ranks, then added.
Placement statistics(const OnAxis& axis, std::size_t i) {
  const Head head = read_head(axis.node);
  if (has_part_of_vocabulary(axis, head, "ranks with different rows have different parts of the vocabulary",
                             {head.h}))
    return i == 0 ? kPartialMax : i == 1 ? kPartialSum : kLocal;
  return rows_of_head(axis, {2});
}
// Results: gradients of h and weight, workspace.
Placement part_gradients(const OnAxis& axis, std::size_t i) {
  const Head head = read_head(axis.node);
  if (has_part_of_vocabulary(axis, head, "its statistics do not cover the whole vocabulary",
                             {head.h, head.largest, head.sum})) {
    require_replicated(axis, 5, "gradient");
    return i == 0 ? kPartialSum : i == 1 ? sharded(0) : kLocal;
  }
  const Placement rows = rows_of_head(axis, {2, 3, 4, 5, 6});
  return i == 1 ? over_rows(rows) : rows;
}

// `Products` is 1 for the logits, and 3 with the gradients of h and of the weight.
template <int Products>
double head_flops(const Graph& graph, const Node& node) {
  const Head head = read_head(node);
  const auto h = sizes_of(graph, head.h), weight = sizes_of(graph, head.weight);
  return weight.empty() ? 0 : Products * 2 * elements(h) * static_cast<double>(weight.front());
}

// Sums the times of all chunks. A product takes the longer of the times of its operations and its
// bytes; the ops on logits between products take the time of their bytes. With gradients, every
// chunk but the first reads the sum in f32 to which it adds the weight gradient.
template <int Products>
NodeCost head_cost(const Priced& p) {
  const Head head = read_head(p.node);
  const TensorType& h = p.type(head.h);
  const auto all_rows = static_cast<double>(h.sizes.at(0));
  const auto width = static_cast<double>(h.sizes.at(1));
  const auto classes = static_cast<double>(p.type(head.weight).sizes.at(0));
  const auto rows = static_cast<double>(p.type(p.node.results.back()).sizes.at(0));
  const auto element = static_cast<double>(dtype_bytes(h.dtype));
  const double chunks = all_rows / rows, of_h = rows * width * element, of_logits = rows * classes * element,
               of_weight = classes * width * element, of_sum = classes * width * 4;
  const auto product = [&](double m, double n, double k, double bytes) {
    return std::max(product_seconds({1, m, n, k}, p.peak, p.device), memory_seconds(bytes, p.device));
  };
  double chunk = product(rows, classes, width, of_h + of_weight + of_logits);
  if constexpr (Products == 1)
    return {chunks * (chunk + memory_seconds(of_logits, p.device)), CostKind::matmul};
  // Logits are read for the sum, and read and overwritten for the gradient.
  chunk += memory_seconds(3 * of_logits, p.device);
  chunk += product(rows, width, classes, of_h + of_weight + of_logits);
  chunk += product(classes, width, rows, of_h + of_logits + of_sum * (2 - 1 / std::max(chunks, 1.0)));
  return {chunks * chunk, CostKind::matmul};
}

// Three products and the losses of each chunk of rows.
std::int64_t head_launches(const Graph& graph, const Node& node) {
  const std::int64_t rows = graph.value(node.results.back()).type.sizes.at(0);
  return (first_operand(graph, node).sizes.at(0) + rows - 1) / rows * 4;
}

template <int Products>
constexpr Op head(std::string_view name, Signature signature, ShardingRule rule) {
  return {.name = name,
          .signature = signature,
          .shard = rule,
          .flops = head_flops<Products>,
          .cost = head_cost<Products>,
          .count_launches = head_launches};
}

constexpr Op kLossOps[] = {
    {.name = "rondo.cross_entropy.default", .signature = {2, 3, 3}, .shard = cross_entropy, .launches = 2},
    {.name = "rondo.cross_entropy_backward.default",
     .signature = {5, 6, 1},
     .reuses = 1,
     .shard = cross_entropy_backward},
    head<3>("rondo.linear_cross_entropy.default", {4, 6, 4}, scaled_losses),
    head<3>("rondo.linear_cross_entropy_gradients.default", {7, 8, 3}, part_gradients),
    head<1>("rondo.linear_cross_entropy_losses.default", {3, 5, 2}, losses),
    head<1>("rondo.linear_cross_entropy_statistics.default", {3, 4, 4}, statistics),
};

}  // namespace

std::span<const Op> loss_ops() { return kLossOps; }

}  // namespace rondo::ir

#include "compiler/plan/launches.h"

#include "compiler/ir/op_facts.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {
namespace {

// Tensors whose addresses and sizes fit into the 4 KiB of a kernel's parameters
// (ops/kernel/tensor_chunks.cuh).
constexpr std::int64_t kUpdatedTensors = 90, kSquaredTensors = 141;
// From this many rows on the gradient of an embedding sorts its ids (LibTorch's kernel).
constexpr std::int64_t kSortedRows = 3072, kLaunchesOfSort = 30;

std::int64_t first_list(const Node& node) {
  const auto* list = node.args.empty() ? nullptr : std::get_if<UseList>(&node.args[0]);
  return list == nullptr ? 0 : static_cast<std::int64_t>(list->values.size());
}

std::int64_t tables(const Node& node, std::int64_t tensors) {
  return (first_list(node) + tensors - 1) / tensors;
}

const TensorType& first_operand(const Graph& graph, const Node& node) {
  const TensorType* first = nullptr;
  for_each_operand(node, [&](ValueId id) {
    if (first == nullptr) first = &graph.value(id).type;
  });
  return *first;
}

// (x, block_rows, block_columns, ...): numbers that share a scale over more than 128 elements are searched
// for their largest before they are rounded, in a launch of its own unless they are dense rows. Scales of 128
// x 128 lie in rows of a multiple of 4, whose ends are filled.
std::int64_t float8_launches(const Graph& graph, const Node& node) {
  if (number(node, 2) == 0.0) return is_read_twice(graph, node) ? 2 : 1;
  const std::vector<std::int64_t>& sizes = first_operand(graph, node).sizes;
  const bool has_ends = number(node, 1) != 1.0 && !sizes.empty() && sizes.back() % (4 * 128) != 0;
  return has_ends ? 2 : 1;
}

// Three products and the losses, of each chunk of rows. The chunk's logits are the last result.
std::int64_t loss_launches(const Graph& graph, const Node& node) {
  const std::int64_t rows = graph.value(node.results.back()).type.sizes.at(0);
  return (first_operand(graph, node).sizes.at(0) + rows - 1) / rows * 4;
}

}  // namespace

std::int64_t launches(const Graph& graph, const Node& node) {
  if (runs_in_background(facts(node.op).effect)) return 1;
  if (moves_nothing(graph, node)) return 0;
  if (node.op.starts_with("rondo.adamw")) return tables(node, kUpdatedTensors);
  if (node.op.starts_with("rondo.sums_of_squares")) return 2 * tables(node, kSquaredTensors);
  if (node.op.ends_with("rms_norm_backward.default") || node.op == "rondo.cross_entropy.default") return 2;
  if (node.op == "rondo.attention_backward.default") return 3;
  if (node.op == "rondo.quantize_float8.default") return float8_launches(graph, node);
  if (node.op.starts_with("rondo.linear_cross_entropy")) return loss_launches(graph, node);
  if (node.op == "aten.embedding_dense_backward.default") {
    const TensorType& grad = first_operand(graph, node);
    return element_count(grad) / grad.sizes.back() > kSortedRows ? kLaunchesOfSort : 2;
  }
  return 1;
}

}  // namespace rondo::ir

// Ops over lists of tensors. compiler/verify/infer_sharding.cpp has their rules of sharding. A
// kernel takes as many tensors as fit into the 4 KiB of its parameters
// (ops/kernel/tensor_chunks.cuh).
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

// Returns the number of kernels for the first list.
std::int64_t kernels_over_list(const Node& node, std::int64_t tensors_of_kernel) {
  const auto* list = argument<UseList>(node, 0);
  return list == nullptr ? 0 : (std::ssize(list->values) + tensors_of_kernel - 1) / tensors_of_kernel;
}
std::int64_t adamw_launches(const Graph&, const Node& node) {
  const auto* rounding = argument<std::vector<std::int64_t>>(node, 13);
  return kernels_over_list(node, rounding == nullptr || rounding->empty() ? 90 : 47);
}
// The second kernel adds the sums of the blocks.
std::int64_t squares_launches(const Graph&, const Node& node) { return 2 * kernels_over_list(node, 141); }

// (parameters, exp_avgs, exp_avg_sqs, gradients, step, learning_rate, ...)
constexpr Op kOptimizerOps[] = {
    {.name = "rondo.adamw.default",
     .overwritten = 3,
     .widens = 3,
     .kind = OpKind::optimizer,
     .count_launches = adamw_launches},
    {.name = "rondo.adamw_.default", .count_launches = adamw_launches},
    {.name = "rondo.sums_of_squares.default",
     .widens = 0,
     .kind = OpKind::squares,
     .count_launches = squares_launches},
};

}  // namespace

std::span<const Op> optimizer_ops() { return kOptimizerOps; }

std::vector<const UseList*> lists_of(const Node& node) {
  std::vector<const UseList*> lists;
  for (const Argument& arg : node.args)
    if (const auto* list = std::get_if<UseList>(&arg); list != nullptr && !list->values.empty())
      lists.push_back(list);
  return lists;
}

}  // namespace rondo::ir

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
// Returns the number of kernels if draws, which `rounding` has, take room among a kernel's
// parameters.
std::int64_t kernels_with_draws(const Node& node, std::size_t rounding, std::int64_t tensors_of_kernel,
                                std::int64_t with_draws) {
  const auto* draws = argument<std::vector<std::int64_t>>(node, rounding);
  return kernels_over_list(node, draws == nullptr || draws->empty() ? tensors_of_kernel : with_draws);
}
std::int64_t adamw_launches(const Graph&, const Node& node) { return kernels_with_draws(node, 13, 90, 47); }
std::int64_t muon_launches(const Graph&, const Node& node) { return kernels_with_draws(node, 5, 110, 52); }
// The second kernel adds the sums of the blocks.
std::int64_t squares_launches(const Graph&, const Node& node) { return 2 * kernels_over_list(node, 141); }

// adamw (parameters, exp_avgs, exp_avg_sqs, gradients, step, learning_rate, ...)
// muon_momentum (momentums, gradients, gradient_scale, found_inf, step, rounding, ...)
// muon_apply (parameters, updates, learning_rate, found_inf, step, rounding, ...)
constexpr Op kOptimizerOps[] = {
    {.name = "rondo.adamw.default",
     .overwritten = 3,
     .widens = 3,
     .kind = OpKind::optimizer,
     .gradients = 3,
     .count_launches = adamw_launches},
    {.name = "rondo.adamw_.default", .count_launches = adamw_launches},
    {.name = "rondo.muon_momentum.default",
     .overwritten = 1,
     .makes_for = 1,
     .widens = 1,
     .kind = OpKind::optimizer,
     .gradients = 1,
     .count_launches = muon_launches},
    {.name = "rondo.muon_momentum_.default", .count_launches = muon_launches},
    {.name = "rondo.muon_apply.default",
     .overwritten = 1,
     .widens = 1,
     .kind = OpKind::optimizer,
     .count_launches = muon_launches},
    {.name = "rondo.muon_apply_.default", .count_launches = muon_launches},
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

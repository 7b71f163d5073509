#include "parallel/permute_rows.h"

#include <ATen/ops/div.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PermuteRows : torch::autograd::Function<PermuteRows> {
  static Tensor forward(AutogradContext* context, const Tensor& x, std::int64_t copies, const Tensor& order,
                        const Tensor& place) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({place});
    context->saved_data["copies"] = copies;
    return at::index_select(x, 0, copies == 1 ? order : at::div(order, copies, "floor"));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor place = context->get_saved_variables()[0];
    const std::int64_t copies = context->saved_data["copies"].toInt();
    const Tensor slots = at::index_select(gradients[0], 0, place);
    const Tensor grad_x =
        copies == 1 ? slots : at::sum(slots.view({-1, copies, slots.size(1)}), at::IntArrayRef{1});
    return {grad_x, {}, {}, {}};
  }
};

}  // namespace

Tensor permute_rows(const Tensor& x, std::int64_t copies, const Tensor& order, const Tensor& place) {
  return PermuteRows::apply(x, copies, order, place);
}

}  // namespace rondo

#include "ops/grouped_mm/grouped_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/grouped_mm/grouped_mm.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& ends,
                        bool inputs_first) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, weight, ends});
    context->saved_data["inputs_first"] = inputs_first;
    return grouped_output(x, weight, ends, inputs_first);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool inputs_first = context->saved_data["inputs_first"].toBool();
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &ends = saved[2], &gradient = gradients[0];
    const Tensor grad_x = grouped_grad_input(gradient, weight, ends, inputs_first);
    return {grad_x, grouped_grad_weight(gradient, x, ends, inputs_first), {}, {}};
  }
};

}  // namespace

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const Tensor& ends, bool inputs_first) {
  return GroupedLinear::apply(x, weight, ends, inputs_first);
}

Tensor grouped_output(const Tensor& x, const Tensor& weight, const Tensor& ends, bool inputs_first) {
  return grouped_mm(x, inputs_first ? weight : weight.transpose(1, 2), ends);
}

Tensor grouped_grad_input(const Tensor& gradient, const Tensor& weight, const Tensor& ends,
                          bool inputs_first) {
  return grouped_mm(gradient, inputs_first ? weight.transpose(1, 2) : weight, ends);
}

// A transposed gradient would be copied to the layout of the weight.
Tensor grouped_grad_weight(const Tensor& gradient, const Tensor& x, const Tensor& ends, bool inputs_first) {
  return inputs_first ? grouped_mm(x.t(), gradient, ends) : grouped_mm(gradient.t(), x, ends);
}

}  // namespace rondo

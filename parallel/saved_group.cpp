#include "parallel/saved_group.h"

#include <torch/csrc/autograd/custom_function.h>

namespace rondo {

void save_group(torch::autograd::AutogradContext* context, const AxisGroup& group) {
  context->saved_data["group"] = group.name;
  context->saved_data["ranks"] = group.ranks;
}

AxisGroup saved_group(torch::autograd::AutogradContext* context) {
  return {context->saved_data["group"].toStringRef(), context->saved_data["ranks"].toInt()};
}

}  // namespace rondo

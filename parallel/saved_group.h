// A group of ranks in the context of an autograd function, for its backward.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "parallel/mesh.h"

namespace rondo {

inline void save_group(torch::autograd::AutogradContext* context, const AxisGroup& group) {
  context->saved_data["group"] = group.name;
  context->saved_data["ranks"] = group.ranks;
}

inline AxisGroup saved_group(torch::autograd::AutogradContext* context) {
  return {context->saved_data["group"].toStringRef(), context->saved_data["ranks"].toInt()};
}

}  // namespace rondo

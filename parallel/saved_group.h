// Saves a group of ranks in the context of an autograd function, for its backward. The group's
// stride is not saved.
#pragma once

#include "parallel/mesh.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace rondo {

void save_group(torch::autograd::AutogradContext* context, const AxisGroup& group);
AxisGroup saved_group(torch::autograd::AutogradContext* context);

}  // namespace rondo

// The state of a step on one rank: weights drawn from seed 7, the model's constants, zeros.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "compiler/trace/step_function.h"
#include "models/parts/decoder.h"

namespace rondo {

// Returns the state in the order of the function's state inputs.
std::vector<at::Tensor> initial_state(const StepFunction& function, const Decoder& model);

}  // namespace rondo

// A batch as the inputs of step functions, which find their parts of it by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "compiler/trace/step_function.h"
#include "datasets/loader.h"

namespace rondo {

// What one input reads, over the batch's own memory; undefined where a batch has nothing of that name.
// `valid_tokens`: of all microbatches of the step.
at::Tensor batch_tensor(const Batch& batch, const StepInput& input, std::int64_t valid_tokens);

// Of all batch inputs of a function that it has, in their order.
std::vector<at::Tensor> batch_tensors(const Batch& batch, const StepFunction& function,
                                      std::int64_t valid_tokens);

}  // namespace rondo

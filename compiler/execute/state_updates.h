// After a step: new state goes into the state's own tensors, plain results to the caller.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "compiler/execute/input_contract.h"
#include "compiler/ir/ir.h"

namespace rondo {

// Copies each output that updates an input into that input's tensor, unless it is that memory already;
// returns the rest. Error(graph): an output is not on the device of the step.
std::vector<at::Tensor> write_back(const std::vector<ir::Output>& outputs,
                                   const std::vector<at::Tensor>& tensors, const InputContract& contract);

}  // namespace rondo

// A step as the compiler sees it: named inputs with their types, named outputs, and a body over tensors.
//
// The body is called with one tensor per input, in order, and returns one per output, in order. It may
// overwrite the input that an output updates, and return it. It runs three ways: with real tensors (eager),
// with memory-less ones (while it is traced), and never again once a graph replays.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo {

struct StepInput {
  std::string name;
  ir::InputKind kind = ir::InputKind::batch;
  ir::TensorType type;
  std::string bucket = {};  // of a parameter; ir::Input
  ir::Sharding sharding = {};
};

struct StepFunction {
  std::string name;
  std::vector<StepInput> inputs;
  std::vector<ir::Output> outputs;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> body;
  ir::MeshAxes mesh = {};  // of the shardings of inputs; without one they are not heeded
};

// The state inputs (every kind but batch) and the batch inputs, as indices into `inputs`.
std::vector<std::size_t> state_inputs(const StepFunction& function);
std::vector<std::size_t> batch_inputs(const StepFunction& function);

ir::DType to_ir(at::ScalarType dtype);
at::ScalarType to_aten(ir::DType dtype);
ir::TensorType type_of(const at::Tensor& tensor);

}  // namespace rondo

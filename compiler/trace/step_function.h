// A step as the compiler sees it: named inputs with types, named outputs, and a body over tensors.
//
// The body takes one tensor per input and returns one per output, both in order. It may overwrite
// the input that an output updates, and return it. It runs with real tensors in an eager run, and
// with fake tensors during a trace. Graph executors do not call it.
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
  std::string bucket = {};  // of a parameter, as in ir::Input
  ir::Sharding sharding = {};
  bool on_host = false;  // after compilation: the state is in host memory
};

struct StepFunction {
  std::string name;
  std::vector<StepInput> inputs;
  std::vector<ir::Output> outputs;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> body;
  ir::MeshAxes mesh = {};               // of the shardings; without one they are ignored
  std::vector<std::string> notes = {};  // for the log: decisions about the body
};

ir::DType to_ir(at::ScalarType dtype);
at::ScalarType to_aten(ir::DType dtype);
ir::TensorType type_of(const at::Tensor& tensor);

}  // namespace rondo

// A graph node prepared for calls: the dispatcher's handle, and the arguments as LibTorch values
// with converted constants.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo {

class BoxedNode {
 public:
  // Throws Error(graph) where this LibTorch lacks the op or an argument. `device` is the device of
  // ops that create tensors without operands. REQUIRES: `node` outlives this object.
  explicit BoxedNode(const ir::Node& node, c10::Device device = c10::kCPU);

  // Pushes the arguments; `tensor_of` returns the operands.
  void push(torch::jit::Stack& stack, const std::function<at::Tensor(ir::ValueId)>& tensor_of) const;
  // Calls the op on a stack that `push` filled; the results replace the arguments.
  void call(torch::jit::Stack& stack) const { op_.callBoxed(stack); }
  const ir::Node& node() const { return *node_; }

 private:
  const ir::Node* node_;
  c10::OperatorHandle op_;
  std::vector<c10::IValue> constants_;  // one per argument; None for an operand
};

// Throws Error(graph) where `result`, a result of the node, is not on `device`.
void check_device(const ir::Node& node, const at::Tensor& result, c10::Device device);

// Returns the tensors on a stack after a call, lists flattened, in the order of the node's results.
std::vector<at::Tensor> flatten_results(const torch::jit::Stack& stack);

}  // namespace rondo

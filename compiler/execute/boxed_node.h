// A graph node resolved for calling: the dispatcher's handle and its arguments as LibTorch values, constants
// ready.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo {

class BoxedNode {
 public:
  // Throws Error(graph) where the op or an argument does not exist in this LibTorch. REQUIRES: `node`
  // outlives this. `device`: where ops that make tensors out of nothing put them.
  explicit BoxedNode(const ir::Node& node, c10::Device device = c10::kCPU);

  // Pushes the arguments; `tensor_of(ValueId)` gives the operands.
  void push(torch::jit::Stack& stack, const std::function<at::Tensor(ir::ValueId)>& tensor_of) const;
  // Calls the op on a stack that `push` filled; the results replace the arguments.
  void call(torch::jit::Stack& stack) const { op_.callBoxed(stack); }
  const ir::Node& node() const { return *node_; }

 private:
  const ir::Node* node_;
  c10::OperatorHandle op_;
  std::vector<c10::IValue> constants_;  // one per argument; None where it is an operand
};

// Throws Error(graph) where `made`, a result of the node, lies on another device than `device`.
void check_device(const ir::Node& node, const at::Tensor& made, c10::Device device);

// The tensors on a stack after a call, lists flattened, in the order of the node's results.
std::vector<at::Tensor> flatten_results(const torch::jit::Stack& stack);

}  // namespace rondo

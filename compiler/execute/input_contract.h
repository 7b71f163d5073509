// Checks at every run that the inputs match the traced step. Determines the device of the step from
// its state, and writes new state into the state's own tensors. executor.h has the contract.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo {

class InputContract {
 public:
  // `inputs` has names, kinds and types in the function's order. `state` has one tensor per input
  // that is not of kind batch. State in host memory is on the CPU, and pinned if the device is a
  // GPU. Throws Error(graph) with two names where the others are on different devices.
  // `without_state` is the device of a step without them.
  struct Expected {
    std::string name;
    ir::InputKind kind;
    ir::TensorType type;
    bool on_host = false;
  };
  InputContract(std::vector<Expected> inputs, std::vector<at::Tensor> state,
                c10::Device without_state = c10::kCPU);

  c10::Device device() const { return device_; }
  // Checks the state and the batch, and returns all inputs in the function's order.
  std::vector<at::Tensor> check(const std::vector<at::Tensor>& batch) const;
  // Checks like check(), with the batch moved to the device of the step. A batch in pinned memory
  // must stay valid until the step is done.
  std::vector<at::Tensor> check_and_move(const std::vector<at::Tensor>& batch) const;
  // After a step, copies each output that updates an input into that input's tensor, unless it
  // is that memory already. Returns the other outputs. Throws Error(graph) for an output on
  // another device.
  std::vector<at::Tensor> write_back(const std::vector<ir::Output>& outputs,
                                     const std::vector<at::Tensor>& tensors) const;
  const std::vector<at::Tensor>& state() const { return state_; }
  // Returns the state tensor of input `index`, counted over all inputs.
  const at::Tensor& state_of(std::size_t index) const { return state_[state_index_[index]]; }

 private:
  std::vector<Expected> inputs_;
  std::vector<at::Tensor> state_;
  // By input: its index in the state; for a batch input, the index of the next state input.
  std::vector<std::size_t> state_index_;
  c10::Device device_;
  std::vector<const void*> addresses_;  // of the state, at binding
};

// The batch inputs on a device: one tensor a name and type, shared by steps that never run at the
// same time.
class SharedBatch {
 public:
  at::Tensor place(const std::string& name, const ir::TensorType& type, c10::Device device);

 private:
  std::map<std::pair<std::string, std::vector<std::int64_t>>, at::Tensor> tensors_;
};

// Returns the contract's view of a graph's inputs, each with the type of its value.
std::vector<InputContract::Expected> expected_inputs(const ir::Graph& graph);

}  // namespace rondo

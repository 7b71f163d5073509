// Checks at every run that the inputs are what the step was traced for, says where the step runs: where its
// state lies, and puts new state into the state's own tensors. The contract stands in executor.h.
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
  // `inputs`: names, kinds and types in the function's order; `state`: one tensor per input that is not of
  // kind batch, all on one device, or Error(graph) names two that are not; `without_state`: the device of a
  // step that has none.
  struct Expected {
    std::string name;
    ir::InputKind kind;
    ir::TensorType type;
  };
  InputContract(std::vector<Expected> inputs, std::vector<at::Tensor> state,
                c10::Device without_state = c10::kCPU);

  c10::Device device() const { return device_; }
  // All inputs in the function's order, after checking both the state and the batch.
  std::vector<at::Tensor> check(const std::vector<at::Tensor>& batch) const;
  // The same with the batch on the device of the step. A batch in pinned memory must stand until the step is
  // done.
  std::vector<at::Tensor> check_and_move(const std::vector<at::Tensor>& batch) const;
  // After a step: copies each output that updates an input into that input's tensor, unless it is that memory
  // already; returns the rest. Error(graph): an output is not on the device of the step.
  std::vector<at::Tensor> write_back(const std::vector<ir::Output>& outputs,
                                     const std::vector<at::Tensor>& tensors) const;
  const std::vector<at::Tensor>& state() const { return state_; }
  // The state tensor that input `index` (of all inputs) is bound to.
  const at::Tensor& state_of(std::size_t index) const { return state_[state_index_[index]]; }

 private:
  std::vector<Expected> inputs_;
  std::vector<at::Tensor> state_;
  std::vector<std::size_t>
      state_index_;  // of each input in the state; of a batch input, that of the next state input
  c10::Device device_;
  std::vector<const void*> addresses_;  // of the state, when it was bound
};

// Where batch inputs lie on a device: one tensor a name and type, for all steps that take turns.
class SharedBatch {
 public:
  at::Tensor place(const std::string& name, const ir::TensorType& type, c10::Device device);

 private:
  std::map<std::pair<std::string, std::vector<std::int64_t>>, at::Tensor> tensors_;
};

// The contract's view of a graph's inputs, with each input's type taken from its value.
std::vector<InputContract::Expected> expected_inputs(const ir::Graph& graph);

}  // namespace rondo

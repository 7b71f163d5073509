// An executor has fixed addresses and shapes built in. So every run compares types and strides of
// all inputs, and the address of each state tensor, with those at binding. A replay would continue
// to read the old address of a moved state tensor, without an error. The batch is moved after the
// checks, by a copy that does not block the host.
#include "compiler/execute/input_contract.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include "compiler/trace/step_function.h"
#include "support/error.h"

namespace rondo {
namespace {

std::string list(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  return text + "]";
}

std::string describe(const ir::TensorType& type) {
  return std::string(ir::dtype_name(type.dtype)) + list(type.sizes) + " strides " + list(type.strides);
}

void check_type(const InputContract::Expected& input, const at::Tensor& tensor) {
  const bool same = tensor.sizes() == input.type.sizes && tensor.strides() == input.type.strides &&
                    tensor.scalar_type() == to_aten(input.type.dtype);
  if (same) return;
  throw Error(ExitCode::graph, "input \"" + input.name + "\" was traced as " + describe(input.type) +
                                   ", but is " + describe(type_of(tensor)) + "; trace the step again for it");
}

// Returns the device of the first state input that is not in host memory, and requires that all
// such inputs are on it.
c10::Device device_of(const std::vector<InputContract::Expected>& inputs,
                      const std::vector<at::Tensor>& state, c10::Device without_state) {
  const InputContract::Expected* first = nullptr;
  c10::Device device = without_state;
  auto next = state.begin();
  for (const InputContract::Expected& input : inputs) {
    if (input.kind == ir::InputKind::batch) continue;
    const at::Tensor& tensor = *next++;
    if (input.on_host) continue;
    if (first == nullptr) {
      first = &input;
      device = tensor.device();
    }
    if (tensor.device() != device)
      throw Error(ExitCode::graph, "state input \"" + first->name + "\" is on " + device.str() + ", but \"" +
                                       input.name + "\" is on " + tensor.device().str() +
                                       "; put the state of a step on one device");
  }
  return device;
}

void check_host_memory(const InputContract::Expected& input, const at::Tensor& tensor, c10::Device device) {
  if (tensor.is_cpu() && (!device.is_cuda() || tensor.is_pinned())) return;
  throw Error(ExitCode::graph, "state input \"" + input.name + "\" must be in " +
                                   (device.is_cuda() ? "pinned " : "") + "host memory, but is on " +
                                   tensor.device().str());
}

}  // namespace

InputContract::InputContract(std::vector<Expected> inputs, std::vector<at::Tensor> state,
                             c10::Device without_state)
    : inputs_(std::move(inputs)), state_(std::move(state)), device_(without_state) {
  std::size_t expected = 0;
  for (const Expected& input : inputs_) {
    state_index_.push_back(expected);
    expected += input.kind != ir::InputKind::batch;
  }
  if (expected != state_.size())
    throw Error(ExitCode::graph, "the step has " + std::to_string(expected) + " state inputs, but got " +
                                     std::to_string(state_.size()));
  device_ = device_of(inputs_, state_, without_state);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].on_host) check_host_memory(inputs_[i], state_of(i), device_);
  for (const at::Tensor& tensor : state_) addresses_.push_back(tensor.const_data_ptr());
}

std::vector<at::Tensor> InputContract::check(const std::vector<at::Tensor>& batch) const {
  std::vector<at::Tensor> inputs;
  inputs.reserve(inputs_.size());
  std::size_t next_state = 0, next_batch = 0;
  for (const Expected& input : inputs_) {
    if (input.kind == ir::InputKind::batch) {
      if (next_batch == batch.size())
        throw Error(ExitCode::graph, "the batch has no input \"" + input.name + "\"");
      check_type(input, batch[next_batch]);
      inputs.push_back(batch[next_batch++]);
      continue;
    }
    const at::Tensor& tensor = state_[next_state];
    check_type(input, tensor);
    if (tensor.const_data_ptr() != addresses_[next_state])
      throw Error(ExitCode::graph, "state input \"" + input.name +
                                       "\" moved to another address after the step was bound to it");
    inputs.push_back(tensor);
    ++next_state;
  }
  if (next_batch != batch.size())
    throw Error(ExitCode::graph, "the batch has " + std::to_string(batch.size()) +
                                     " tensors, but the step reads " + std::to_string(next_batch));
  return inputs;
}

std::vector<at::Tensor> InputContract::check_and_move(const std::vector<at::Tensor>& batch) const {
  std::vector<at::Tensor> inputs = check(batch);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs_[i].kind == ir::InputKind::batch)
      inputs[i] = inputs[i].to(at::TensorOptions(device_), /*non_blocking=*/true);
  return inputs;
}

std::vector<at::Tensor> InputContract::write_back(const std::vector<ir::Output>& outputs,
                                                  const std::vector<at::Tensor>& tensors) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool of_host =
        outputs[i].updates >= 0 && inputs_[static_cast<std::size_t>(outputs[i].updates)].on_host;
    if (!of_host && tensors[i].device() != device_)
      throw Error(ExitCode::graph, "result \"" + outputs[i].name + "\" of the step is on " +
                                       tensors[i].device().str() + ", but the step runs on " + device_.str() +
                                       "; create tensors on the device of an input of the step");
    if (outputs[i].updates < 0) {
      results.push_back(tensors[i]);
      continue;
    }
    const at::Tensor& state = state_of(static_cast<std::size_t>(outputs[i].updates));
    if (state.const_data_ptr() != tensors[i].const_data_ptr()) state.copy_(tensors[i]);
  }
  return results;
}

at::Tensor SharedBatch::place(const std::string& name, const ir::TensorType& type, c10::Device device) {
  at::Tensor& tensor = tensors_[{name, type.sizes}];
  if (!tensor.defined())
    tensor = at::empty_strided(type.sizes, type.strides,
                               at::TensorOptions().device(device).dtype(to_aten(type.dtype)));
  return tensor;
}

std::vector<InputContract::Expected> expected_inputs(const ir::Graph& graph) {
  std::vector<InputContract::Expected> result;
  for (const ir::Input& input : graph.inputs)
    result.push_back(
        {input.name, input.kind, graph.value(input.value).type, graph.value(input.value).on_host});
  return result;
}

}  // namespace rondo

// Builds the signature of a step function, by whose positions its body reads inputs and
// writes outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "compiler/trace/step_function.h"
#include "trainer/step/functions/batch_tensor.h"

namespace rondo {

// A run of consecutive inputs of one function.
struct Range {
  std::size_t begin = 0, count = 0;
  std::vector<at::Tensor> of(const std::vector<at::Tensor>& inputs) const {
    return {inputs.begin() + static_cast<std::ptrdiff_t>(begin),
            inputs.begin() + static_cast<std::ptrdiff_t>(begin + count)};
  }
};

// The state of the model, with the same names in every function of a step.
struct ModelInputs {
  ir::MeshAxes mesh;
  std::vector<StepInput> parameters;  // the shards, in the table's order
  std::vector<StepInput> constants;
  std::vector<StepInput> expert_biases;
};

// The outputs of one call, written by name or by the input that they update, in any order.
class StepOutputs {
 public:
  explicit StepOutputs(const std::vector<ir::Output>& declared)
      : declared_(declared), tensors_(declared.size()) {}
  void result(const std::string& name, at::Tensor tensor);
  void update(std::size_t input, at::Tensor tensor);
  void update(const Range& inputs, const std::vector<at::Tensor>& tensors);
  // Returns the outputs in the declared order. REQUIRES: each was written once.
  std::vector<at::Tensor> take();

 private:
  void write(std::size_t output, at::Tensor tensor);

  const std::vector<ir::Output>& declared_;
  std::vector<at::Tensor> tensors_;
};

// Builds the inputs and outputs of a function, with the ranges that its body reads.
class SignatureBuilder {
 public:
  // `model` must outlive this object.
  explicit SignatureBuilder(const ModelInputs& model) : model_(model) { function.mesh = model.mesh; }

  Range parameters() { return append(model_.parameters); }
  Range constants() { return append(model_.constants); }
  Range expert_biases() { return append(model_.expert_biases); }
  // Adds a tensor with the shape of each parameter: "exp_avg.layers.0.wq.weight".
  Range per_parameter(const std::string& prefix, ir::InputKind kind, std::optional<ir::DType> dtype) {
    std::vector<std::size_t> all(model_.parameters.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return per_parameter(prefix, kind, dtype, all);
  }
  // The same for some parameters.
  Range per_parameter(const std::string& prefix, ir::InputKind kind, std::optional<ir::DType> dtype,
                      const std::vector<std::size_t>& some) {
    std::vector<StepInput> inputs;
    for (const std::size_t place : some) inputs.push_back(model_.parameters[place]);
    for (StepInput& input : inputs) {
      input.name = prefix + input.name;
      input.kind = kind;
      if (dtype) input.type.dtype = *dtype;
      input.bucket.clear();
    }
    return append(inputs);
  }
  // Adds a tensor that persists between calls.
  std::size_t state(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes,
                    ir::Sharding sharding) {
    return append(name, ir::InputKind::buffer, ir::contiguous(dtype, std::move(sizes)), std::move(sharding));
  }
  std::size_t add(StepInput input) {
    function.inputs.push_back(std::move(input));
    return function.inputs.size() - 1;
  }
  std::size_t scalar(const std::string& name, ir::InputKind kind, ir::Sharding sharding = {},
                     ir::DType dtype = ir::DType::f32) {
    return append(name, kind, ir::contiguous(dtype, {}), std::move(sharding));
  }
  std::size_t batch(BatchTensor tensor, ir::DType dtype, std::vector<std::int64_t> sizes,
                    ir::Sharding sharding) {
    return append(name_of(tensor), ir::InputKind::batch, ir::contiguous(dtype, std::move(sizes)),
                  std::move(sharding));
  }
  void result(const std::string& name) { function.outputs.push_back({name, -1}); }
  void update(std::size_t input) {
    function.outputs.push_back({"new." + function.inputs[input].name, static_cast<int>(input)});
  }
  void updates(const Range& range) {
    for (std::size_t i = 0; i < range.count; ++i) update(range.begin + i);
  }

  using Body = std::function<void(const std::vector<at::Tensor>& inputs, StepOutputs& outputs)>;
  // Returns the finished function. `body` reads inputs at the positions that this object returned.
  StepFunction build(std::string name, Body body) {
    function.name = std::move(name);
    function.body = [outputs = function.outputs, body = std::move(body)](const auto& inputs) {
      StepOutputs results(outputs);
      body(inputs, results);
      return results.take();
    };
    return std::move(function);
  }

  StepFunction function;

 private:
  std::size_t append(const std::string& name, ir::InputKind kind, ir::TensorType type,
                     ir::Sharding sharding) {
    return add({name, kind, std::move(type), {}, std::move(sharding)});
  }
  Range append(const std::vector<StepInput>& inputs) {
    const Range range{function.inputs.size(), inputs.size()};
    function.inputs.insert(function.inputs.end(), inputs.begin(), inputs.end());
    return range;
  }

  const ModelInputs& model_;
};

}  // namespace rondo

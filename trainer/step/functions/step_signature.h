// The inputs and outputs of a step function, and the places that its body reads them from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/trace/step_function.h"

namespace rondo {

// A run of consecutive inputs of one function.
struct Range {
  std::size_t begin = 0, count = 0;
  std::vector<at::Tensor> of(const std::vector<at::Tensor>& inputs) const {
    return {inputs.begin() + static_cast<std::ptrdiff_t>(begin),
            inputs.begin() + static_cast<std::ptrdiff_t>(begin + count)};
  }
};

// State of the model, as every function of a step names it.
struct ModelInputs {
  ir::MeshAxes mesh;
  std::vector<StepInput> parameters;  // the shards, in the table's order
  std::vector<StepInput> constants;
  std::vector<StepInput> expert_biases;
};

// Builds inputs and outputs side by side with the ranges that the body reads.
class SignatureBuilder {
 public:
  // `model` outlives this object.
  explicit SignatureBuilder(const ModelInputs& model) : model_(model) { function.mesh = model.mesh; }

  Range parameters() { return append(model_.parameters); }
  Range constants() { return append(model_.constants); }
  Range expert_biases() { return append(model_.expert_biases); }
  // A tensor like each parameter, "exp_avg.layers.0.wq.weight".
  Range per_parameter(const std::string& prefix, ir::InputKind kind, std::optional<ir::DType> dtype) {
    std::vector<StepInput> inputs = model_.parameters;
    for (StepInput& input : inputs) {
      input.name = prefix + input.name;
      input.kind = kind;
      if (dtype) input.type.dtype = *dtype;
      input.bucket.clear();
    }
    return append(inputs);
  }
  // Kept between calls.
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
  std::size_t batch(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes,
                    ir::Sharding sharding) {
    return append(name, ir::InputKind::batch, ir::contiguous(dtype, std::move(sizes)), std::move(sharding));
  }
  void result(const std::string& name) { function.outputs.push_back({name, -1}); }
  void update(std::size_t input) {
    function.outputs.push_back({"new." + function.inputs[input].name, static_cast<int>(input)});
  }
  void updates(const Range& range) {
    for (std::size_t i = 0; i < range.count; ++i) update(range.begin + i);
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

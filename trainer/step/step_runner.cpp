// Batches are wrapped by from_blob and not copied; the caller keeps them until the step has run. All numbers
// of a step are concatenated and copied to the host at once, because each copy would wait for the device.
// Executors exist only for functions that were compiled; run() takes the single function where there is one.
// Shared resources are declared before the executors and outlive them.
#include "trainer/step/step_runner.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <map>

namespace rondo {
namespace {

template <class T>
at::Tensor view_of(const std::vector<T>& data, std::vector<std::int64_t> sizes, at::ScalarType dtype) {
  return at::from_blob(const_cast<T*>(data.data()), sizes, at::TensorOptions().dtype(dtype));
}

at::Tensor scalar(double value) { return at::full({}, value, at::TensorOptions().dtype(at::kFloat)); }

std::vector<std::int64_t> token_shape(const std::optional<CompiledStep>& step) {
  if (!step) return {};
  for (const StepInput& input : step->function().inputs)
    if (input.name == "tokens") return input.type.sizes;
  return {};
}

// In the order of the function's batch inputs.
std::vector<at::Tensor> batch_tensors(const Batch& batch, const std::vector<std::int64_t>& shape,
                                      std::int64_t valid_tokens) {
  std::vector<at::Tensor> tensors{view_of(batch.tokens, shape, at::kLong),
                                  view_of(batch.labels, shape, at::kLong)};
  if (!batch.cu_seqlens.empty()) {
    tensors.push_back(view_of(batch.positions, shape, at::kLong));
    tensors.push_back(
        view_of(batch.cu_seqlens, {static_cast<std::int64_t>(batch.cu_seqlens.size())}, at::kInt));
  }
  tensors.push_back(scalar(static_cast<double>(valid_tokens)));
  return tensors;
}

// The numbers of a step's plain results (fp32) by their names, in one copy: each would wait for the device.
std::map<std::string, std::vector<float>> on_host(const StepFunction& function,
                                                  const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& result : results) flat.push_back(result.reshape({-1}));
  const at::Tensor all = at::cat(flat).cpu();
  const float* next = all.const_data_ptr<float>();
  std::map<std::string, std::vector<float>> numbers;
  auto result = flat.begin();
  for (const ir::Output& output : function.outputs) {
    if (output.updates >= 0) continue;
    numbers[output.name].assign(next, next + result->numel());
    next += (result++)->numel();
  }
  return numbers;
}

StepResult read(const CompiledStep& step, const std::vector<at::Tensor>& results) {
  const auto numbers = on_host(step.function(), results);
  const auto number = [&](const std::string& name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt : std::optional(found->second.at(0));
  };
  StepResult result;
  result.loss = numbers.at(kLoss).at(0);
  result.grad_norm = number(kGradNorm).value_or(0);
  result.finite = number(kFoundInf).value_or(0) == 0;
  result.load_imbalance = number(kLoadImbalance);
  if (const auto tokens = numbers.find(kTokensPerExpert); tokens != numbers.end())
    result.tokens_per_expert = tokens->second;
  result.dropped_tokens = number(kDroppedTokens).value_or(0);
  return result;
}

}  // namespace

CompiledFunctions::CompiledFunctions(const TrainStepFunctions& functions, const CompileRequest& request,
                                     bool with_validation) {
  if (functions.train_step.body) {
    train_step.emplace(functions.train_step, request);
  } else {
    accumulate.emplace(functions.accumulate, request);
    update.emplace(functions.update, request);
  }
  if (with_validation) validate.emplace(functions.validate, request);
}

std::vector<const CompiledStep*> CompiledFunctions::all() const {
  std::vector<const CompiledStep*> present;
  for (const auto* step : {&train_step, &accumulate, &update, &validate})
    if (*step) present.push_back(&**step);
  return present;
}

StepRunner::StepRunner(const CompiledFunctions& functions, const TrainState& state,
                       const SharedResources& shared)
    : functions_(functions),
      shared_(shared),
      training_shape_(token_shape(functions.train_step ? functions.train_step : functions.accumulate)),
      validation_shape_(token_shape(functions.validate)) {
  const auto bind = [&](const std::optional<CompiledStep>& step) {
    return step ? step->bind(state.inputs_of(step->function()), shared_) : nullptr;
  };
  train_step_ = bind(functions.train_step);
  accumulate_ = bind(functions.accumulate);
  update_ = bind(functions.update);
  validate_ = bind(functions.validate);
}

StepResult StepRunner::run(const StepBatch& batch, double learning_rate) {
  if (train_step_) {
    std::vector<at::Tensor> tensors =
        batch_tensors(batch.microbatches[0], training_shape_, batch.valid_tokens);
    tensors.push_back(scalar(learning_rate));
    return read(*functions_.train_step, train_step_->run(tensors));
  }
  for (const Batch& microbatch : batch.microbatches)
    accumulate_->run(batch_tensors(microbatch, training_shape_, batch.valid_tokens));
  return read(*functions_.update, update_->run({scalar(learning_rate)}));
}

StepResult StepRunner::validate(const StepBatch& batch) {
  return read(*functions_.validate,
              validate_->run(batch_tensors(batch.microbatches[0], validation_shape_, batch.valid_tokens)));
}

}  // namespace rondo

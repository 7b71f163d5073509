// Batches are wrapped by from_blob, and staged where the device fetches them by itself. All numbers of a step
// are concatenated and copied to the host at once. A step that halted is followed by at most one that did
// nothing: it is waited for before the state goes on, so that nothing reads what is overwritten then.
// Executors exist only for functions that were compiled. Shared resources are declared before the executors
// and outlive them. Whether dropped tokens alone stopped a step is asked as the step asks for infinities: the
// sum of loss and norm is finite.
#include "trainer/step/step_runner.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "support/error.h"
#include "trainer/step/batch_tensors.h"

namespace rondo {
namespace {

at::Tensor scalar(double value) { return at::full({}, value, at::TensorOptions().dtype(at::kFloat)); }

// All plain results (fp32 or fp64) in a row.
at::Tensor row_of(const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& result : results) flat.push_back(result.reshape({-1}));
  return at::cat(flat);
}

// The numbers of such a row on the host, by the names of the results.
std::map<std::string, std::vector<double>> by_name(const StepFunction& function,
                                                   const std::vector<at::Tensor>& results,
                                                   const at::Tensor& row) {
  const at::Tensor all = row.to(at::kDouble);
  const double* next = all.const_data_ptr<double>();
  std::map<std::string, std::vector<double>> numbers;
  auto result = results.begin();
  for (const ir::Output& output : function.outputs) {
    if (output.updates >= 0) continue;
    numbers[output.name].assign(next, next + result->numel());
    next += (result++)->numel();
  }
  return numbers;
}

StepResult read(const StepFunction& function, const std::vector<at::Tensor>& results, const at::Tensor& row) {
  const auto numbers = by_name(function, results, row);
  const auto number = [&](const std::string& name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt : std::optional(found->second.at(0));
  };
  StepResult result;
  result.loss = numbers.at(kLoss).at(0);
  result.grad_norm = number(kGradNorm).value_or(0);
  result.finite = number(kFoundInf).value_or(0) == 0;
  if (const auto imbalance = number(kLoadImbalance)) result.load_imbalance = static_cast<float>(*imbalance);
  if (const auto tokens = numbers.find(kTokensPerExpert); tokens != numbers.end())
    result.tokens_per_expert.assign(tokens->second.begin(), tokens->second.end());
  result.dropped_tokens = static_cast<float>(number(kDroppedTokens).value_or(0));
  return result;
}

}  // namespace

StepRunner::StepRunner(const CompiledFunctions& functions, const TrainState& state,
                       const SharedResources& shared)
    : functions_(functions),
      shared_(shared),
      learning_rates_(shared.memory, kUnderWay),
      numbers_(shared.memory, kUnderWay) {
  const auto bind = [&](const CompiledStep& step) {
    return step.bind(state.inputs_of(step.function()), shared_);
  };
  if (functions.pipeline)
    pipeline_.emplace(*functions.pipeline, state, shared_);
  else if (functions.trains())
    forward_backward_ = bind(functions.forward_backward());
  if (functions.trains()) halted_ = state.tensor(kHalted);
  if (functions.update) update_ = bind(*functions.update);
  if (functions.repeat) repeat_ = bind(*functions.repeat);
  if (!functions.validate) return;
  validate_ = bind(*functions.validate);
}

const StepFunction& StepRunner::last_function(const CompiledStep* forward_backward) const {
  return functions_.update ? functions_.update->function() : forward_backward->function();
}

std::vector<at::Tensor> StepRunner::issue(Executor* forward_backward, const Step& step) {
  const std::vector<Batch>& microbatches = step.batch.microbatches;
  if (!microbatches_) microbatches_.emplace(shared_.memory, kUnderWay * microbatches.size());
  const at::Tensor learning_rate = scalar(step.learning_rate);
  std::vector<at::Tensor> of_update;
  if (update_) of_update = learning_rates_.stage({learning_rate});  // before anything is recorded
  if (pipeline_) {
    pipeline_->run(step.batch);
    return update_->run(of_update);
  }
  for (const Batch& microbatch : microbatches) {
    std::vector<at::Tensor> tensors =
        batch_tensors(microbatch, functions_.forward_backward().function(), step.batch.valid_tokens);
    if (!update_) tensors.push_back(learning_rate);
    std::vector<at::Tensor> results = forward_backward->run(microbatches_->stage(tensors));
    if (!update_) return results;
  }
  return update_->run(of_update);
}

void StepRunner::begin(StepBatch batch, double learning_rate) {
  begin_again();
  steps_.push_back({std::move(batch), learning_rate});
  launch(steps_.back());
}

void StepRunner::launch(Step& step) {
  step.results = issue(forward_backward_.get(), step);
  numbers_.ask(row_of(step.results));
}

void StepRunner::begin_again() {
  for (Step& step : steps_) {
    if (!std::exchange(step.did_nothing, false)) continue;
    launch(step);
  }
}

StepResult StepRunner::finish() {
  begin_again();
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  const CompiledStep* compiled = functions_.pipeline ? nullptr : &functions_.forward_backward();
  StepResult result = read(last_function(compiled), step.results, numbers_.read());
  if (result.finite) return result;
  for (Step& later : steps_) {
    numbers_.read();
    later.did_nothing = true;
  }
  if (result.dropped_tokens == 0) return result;
  if (!repeat_) {
    result.finite = result.skipped = std::isfinite(result.loss + result.grad_norm);
    if (result.skipped) halted_.zero_();
    return result;
  }
  halted_.zero_();
  const std::vector<at::Tensor> results = issue(repeat_.get(), step);
  StepResult again = read(last_function(&*functions_.repeat), results, row_of(results).cpu());
  again.repeated = true;
  again.dropped_tokens = result.dropped_tokens;
  return again;
}

std::optional<ReplayFacts> StepRunner::replay_facts() const {
  if (pipeline_) return pipeline_->facts();
  const ReplayFacts* facts = forward_backward_->facts();
  return facts == nullptr ? std::nullopt : std::optional(*facts);
}

double StepRunner::validate(const StepBatch& batch) {
  const Batch& only = batch.microbatches[0];
  const std::vector<at::Tensor> results =
      validate_->run(pipeline_ ? std::vector{pipeline_->validate(only, batch.valid_tokens)}
                               : batch_tensors(only, functions_.validate->function(), batch.valid_tokens));
  return read(functions_.validate->function(), results, row_of(results).cpu()).loss;
}

}  // namespace rondo

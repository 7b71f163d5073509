// Runs the calls of a step. Batches are wrapped by from_blob and staged for the device, all batches
// of a step before its first call, since a recording must not allocate. The numbers of a step are
// concatenated and copied to the host together. At most one step follows a halted step; the runner
// waits for it before the state changes again. A step with dropped tokens is skipped, not failed,
// if the sum of loss and norm is finite.
#include "trainer/step/step_runner.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace rondo {
namespace {

// Concatenates the plain results (fp32 or fp64).
at::Tensor row_of(const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& result : results) flat.push_back(result.reshape({-1}));
  return at::cat(flat);
}

// Returns the numbers of a row of row_of by the names of the results.
std::map<std::string, std::vector<double>> by_name(const StepFunction& function,
                                                   const std::vector<at::Tensor>& results,
                                                   const at::Tensor& row) {
  const at::Tensor row_f64 = row.to(at::kDouble);
  const double* next = row_f64.const_data_ptr<double>();
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
    const auto match = numbers.find(name);
    return match == numbers.end() ? std::nullopt : std::optional(match->second.at(0));
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

// Returns how often a step runs a function.
std::size_t count(const std::vector<Call>& calls, const CompiledStep* function) {
  return static_cast<std::size_t>(
      std::count_if(calls.begin(), calls.end(), [&](const Call& call) { return call.function == function; }));
}

std::size_t microbatches_of(const std::vector<Call>& calls) {
  std::size_t last = 0;
  for (const Call& call : calls) last = std::max(last, call.microbatch);
  return last + 1;
}

}  // namespace

StepRunner::StepRunner(const StepProgram& program, const TrainState& state, const SharedResources& shared)
    : program_(program), shared_(shared), numbers_(shared.memory, kInFlight) {
  if (program.pipeline) pipeline_.emplace(*program.pipeline, state, shared_);
  if (!program.step.empty()) halted_ = state.tensor(kHalted);
  bind(program.step, state);
  bind(program.repeat, state);
  bind(program.validation, state);
}

void StepRunner::bind(const std::vector<Call>& calls, const TrainState& state) {
  for (const Call& call : calls)
    if (!bound_.contains(call.function))
      bound_.emplace(call.function,
                     Bound{call.function->bind(state.inputs_of(call.function->function()), shared_),
                           StagedBatches(shared_.memory, kInFlight * count(calls, call.function))});
}

std::vector<at::Tensor> StepRunner::issue(const std::vector<Call>& calls, const Step& step) {
  const std::vector<Batch>& microbatches = step.batch.microbatches;
  RONDO_ASSERT(pipeline_ || microbatches.size() == microbatches_of(calls),
               "a step has the microbatches of its program");
  std::vector<std::vector<at::Tensor>> batches;
  for (const Call& call : calls) {
    const BatchSource source{.microbatch = &microbatches[call.microbatch],
                             .valid_tokens = step.batch.valid_tokens,
                             .learning_rate = step.learning_rate};
    batches.push_back(bound_.at(call.function).batches.stage(source.tensors(call.function->function())));
  }
  if (pipeline_) pipeline_->run(step.batch);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < calls.size(); ++i)
    results = bound_.at(calls[i].function).executor->run(batches[i]);
  return results;
}

void StepRunner::begin(StepBatch batch, double learning_rate) {
  begin_again();
  steps_.push_back({std::move(batch), learning_rate});
  launch(steps_.back());
}

void StepRunner::launch(Step& step) {
  step.results = issue(program_.step, step);
  numbers_.enqueue(row_of(step.results));
}

void StepRunner::begin_again() {
  for (Step& step : steps_)
    if (std::exchange(step.did_nothing, false)) launch(step);
}

StepResult StepRunner::finish() {
  begin_again();
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  StepResult result = read(program_.step.back().function->function(), step.results, numbers_.read());
  if (result.finite) return result;
  for (Step& later : steps_) {
    numbers_.read();
    later.did_nothing = true;
  }
  if (result.dropped_tokens == 0) return result;
  if (program_.repeat.empty()) {
    result.finite = result.skipped = std::isfinite(result.loss + result.grad_norm);
    if (result.skipped) halted_.zero_();
    return result;
  }
  halted_.zero_();
  const std::vector<at::Tensor> results = issue(program_.repeat, step);
  StepResult repeat_result =
      read(program_.repeat.back().function->function(), results, row_of(results).cpu());
  repeat_result.repeated = true;
  repeat_result.dropped_tokens = result.dropped_tokens;
  return repeat_result;
}

std::optional<ReplayStats> StepRunner::replay_stats() const {
  std::map<const Executor*, std::int64_t> runs;
  if (pipeline_) runs = pipeline_->runs_of_a_step();
  for (const Call& call : program_.step) ++runs[bound_.at(call.function).executor.get()];
  ReplayStats stats;
  for (const auto& [executor, count] : runs) {
    if (executor->stats() == nullptr) return std::nullopt;
    stats.add(*executor->stats(), count);
  }
  return stats;
}

LossSum StepRunner::validate(const StepBatch& batch) {
  const Batch& rows = batch.microbatches[0];
  BatchSource source{.microbatch = &rows, .valid_tokens = batch.valid_tokens};
  if (pipeline_) source.stage_loss = pipeline_->validate(rows);
  const CompiledStep* const function = program_.validation.front().function;
  const std::vector<at::Tensor> results =
      bound_.at(function).executor->run(source.tensors(function->function()));
  const auto numbers = by_name(function->function(), results, row_of(results).cpu());
  return {numbers.at(kLoss).at(0), std::llround(numbers.at(kLabels).at(0))};
}

}  // namespace rondo

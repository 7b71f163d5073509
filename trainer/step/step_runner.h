// Runs optimizer steps and validation batches with whichever executor the configuration asks for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "trainer/data/loader.h"
#include "trainer/step/train_state.h"
#include "trainer/step/train_step.h"

namespace rondo {

struct StepResult {
  float loss = 0;                             // mean over all valid tokens of the step, all ranks
  float grad_norm = 0;                        // before clipping
  bool finite = true;                         // false: the state was left as it was, bit for bit
  std::optional<float> load_imbalance = {};   // of models with routers; train_step.h
  std::vector<float> tokens_per_expert = {};  // [L, E], row by row; empty without routers
  float dropped_tokens = 0;                   // above 0: `finite` is false
};

// Compiled functions of a run. Made before any weight exists.
struct CompiledFunctions {
  std::optional<CompiledStep> train_step, accumulate, update, validate;

  CompiledFunctions(const TrainStepFunctions& functions, const CompileRequest& request, bool with_validation);
  // Of a program that trains nothing.
  CompiledFunctions(const StepFunction& validation, const CompileRequest& request) {
    validate.emplace(validation, request);
  }
  std::vector<const CompiledStep*> all() const;
};

class StepRunner {
 public:
  // `functions` outlive this. `shared` comes from share_resources(functions.all(), ...).
  StepRunner(const CompiledFunctions& functions, const TrainState& state, const SharedResources& shared);

  StepResult run(const StepBatch& batch, double learning_rate);
  // Of the result only the loss and the rows without room have a meaning.
  StepResult validate(const StepBatch& batch);
  // Of the executor that does forward and backward, complete after its second run; nullptr unless it is a
  // replay.
  const ReplayFacts* replay_facts() const { return (train_step_ ? train_step_ : accumulate_)->facts(); }

 private:
  const CompiledFunctions& functions_;
  SharedResources shared_;  // above the executors, which go first
  std::unique_ptr<Executor> train_step_, accumulate_, update_, validate_;
  std::vector<std::int64_t> training_shape_, validation_shape_;  // [B, T] of the tokens
};

}  // namespace rondo

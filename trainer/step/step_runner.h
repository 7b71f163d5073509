// Runs optimizer steps and validation batches with whichever executor the configuration asks for.
//
// A step may be begun before the one before it is known to have done anything: at most two are under way. One
// that is not finite or has no room for all rows halts the state (train_step.h: kHalted), so what was begun
// behind it changed nothing. It is begun again once the state may go on, with the bits that it would have
// had.
//
// A step whose experts have no room for all rows changes nothing but the totals of its microbatches, which
// its update clears. The runner then runs it again with room for all, where that was compiled; otherwise the
// step is skipped. Ranks decide alike, since they read the same sum.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/execute/host_transfers.h"
#include "trainer/data/loader.h"
#include "trainer/step/functions/train_step.h"
#include "trainer/step/train_state.h"

namespace rondo {

struct StepResult {
  double loss = 0;                            // mean over all valid tokens of the step, all ranks
  double grad_norm = 0;                       // before clipping
  bool finite = true;                         // false: the state was left as it was, bit for bit
  std::optional<float> load_imbalance = {};   // of models with routers; train_step.h
  std::vector<float> tokens_per_expert = {};  // [L, E], row by row; empty without routers
  float dropped_tokens = 0;                   // rows without room, of the first try
  bool repeated = false;                      // with room for all; the other numbers are those of that
  bool skipped = false;                       // nothing but dropped tokens stopped it
};

// Of a rank, over all functions of its step: they share their inputs, and take turns in one arena.
struct PlannedMemory {
  std::array<std::int64_t, ir::kInputKinds> input_bytes{};  // by InputKind
  std::int64_t arena_bytes = 0;
  ir::MemoryReport report;  // of the function with the largest arena

  std::int64_t total_bytes() const;
};
PlannedMemory planned_memory(const std::vector<const CompiledStep*>& steps);

// Compiled functions of a run. Made before any weight exists. `repeat` computes all again that it can, with
// MemoryPolicy::full and all-to-alls too: it is rare, has the same bits, and shares the arena of the others.
struct CompiledFunctions {
  std::optional<CompiledStep> train_step, accumulate, update, repeat, validate;

  CompiledFunctions(const TrainStepFunctions& functions, const CompileRequest& request, bool with_validation);
  // Of a program that trains nothing.
  CompiledFunctions(const StepFunction& validation, const CompileRequest& request) {
    validate.emplace(validation, request);
  }
  std::vector<const CompiledStep*> all() const;
  bool trains() const { return train_step || accumulate; }
  // REQUIRES: trains().
  const CompiledStep& forward_backward() const { return train_step ? *train_step : *accumulate; }
  // Whether all functions fit into `bytes`, or `repeat` takes no more than the function that it repeats.
  // Eager functions have no plan and always fit. REQUIRES: repeat.
  bool repeat_fits(std::int64_t bytes) const;
};

class StepRunner {
 public:
  // `functions` outlive this. `shared` comes from share_resources(functions.all(), ...).
  StepRunner(const CompiledFunctions& functions, const TrainState& state, const SharedResources& shared);

  // Hands the device a step behind those under way, at most one. REQUIRES: none of these was not finite.
  void begin(StepBatch batch, double learning_rate);
  // Waits for the oldest step under way and for nothing behind it. Where its experts had no room it was
  // repeated or skipped, and the step behind it comes again. REQUIRES: under_way() > 0.
  StepResult finish();
  std::size_t under_way() const { return steps_.size(); }
  StepResult run(StepBatch batch, double learning_rate) {
    begin(std::move(batch), learning_rate);
    return finish();
  }
  // The loss.
  double validate(const StepBatch& batch);
  // Of the executor that does forward and backward, complete after its second run; nullptr unless it is a
  // replay.
  const ReplayFacts* replay_facts() const { return forward_backward_->facts(); }

 private:
  struct Step {
    StepBatch batch;
    double learning_rate = 0;
    std::vector<at::Tensor> results = {};  // on the device, until the next step
    bool did_nothing = false;              // since the one before it halted
  };
  static constexpr std::size_t kUnderWay = 2;

  std::vector<at::Tensor> issue(Executor& forward_backward, const Step& step);
  void launch(Step& step);
  void begin_again();
  // Of the function that has the step's results.
  const StepFunction& last_function(const CompiledStep& forward_backward) const;

  const CompiledFunctions& functions_;
  at::Tensor halted_;       // of the state; undefined where nothing is trained
  SharedResources shared_;  // above the executors, which go first
  std::unique_ptr<Executor> forward_backward_, repeat_, update_, validate_;  // nullptr: not compiled
  std::deque<Step> steps_;                                                   // under way, the oldest first
  std::optional<StagedBatches> microbatches_;
  StagedBatches learning_rates_;
  LateNumbers numbers_;
};

}  // namespace rondo

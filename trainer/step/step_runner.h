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

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/execute/host_transfers.h"
#include "datasets/loader.h"
#include "trainer/step/compiled_functions.h"
#include "trainer/step/pipeline_runner.h"
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
  // Of what does forward and backward, complete after its second run; none unless it is replayed.
  std::optional<ReplayFacts> replay_facts() const;

 private:
  struct Step {
    StepBatch batch;
    double learning_rate = 0;
    std::vector<at::Tensor> results = {};  // on the device, until the next step
    bool did_nothing = false;              // since the one before it halted
  };
  static constexpr std::size_t kUnderWay = 2;

  // `forward_backward`: nullptr of a pipeline.
  std::vector<at::Tensor> issue(Executor* forward_backward, const Step& step);
  void launch(Step& step);
  void begin_again();
  // Of the function that has the step's results.
  const StepFunction& last_function(const CompiledStep* forward_backward) const;

  const CompiledFunctions& functions_;
  at::Tensor halted_;       // of the state; undefined where nothing is trained
  SharedResources shared_;  // above the executors, which go first
  std::unique_ptr<Executor> forward_backward_, repeat_, update_, validate_;  // nullptr: not compiled
  std::optional<PipelineRunner> pipeline_;
  std::deque<Step> steps_;  // under way, the oldest first
  std::optional<StagedBatches> microbatches_;
  StagedBatches learning_rates_;
  LateNumbers numbers_;
};

}  // namespace rondo

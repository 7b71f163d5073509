// Runs the calls of a StepProgram: optimizer steps and validation batches, with any executor.
//
// At most two steps are in flight: a step may begin before the host has read the numbers of the
// previous one. A step that is not finite, or whose experts overflow, halts the state
// (train_step.h: kHalted), so the next step changes nothing. That step begins again after the halt
// is cleared, with the same bits as without the halt.
//
// A step whose experts overflow changes only the totals of its microbatches, which its update
// clears. It is repeated with room for all tokens if the program has a repeat, otherwise skipped.
// All ranks read the same sum, so their decisions agree.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/execute/host_transfers.h"
#include "datasets/loader.h"
#include "trainer/step/pipeline_runner.h"
#include "trainer/step/step_program.h"
#include "trainer/step/train_state.h"

namespace rondo {

struct StepResult {
  double loss = 0;                            // mean over all valid tokens of the step, all ranks
  double grad_norm = 0;                       // before clipping
  bool finite = true;                         // false: the state is unchanged, bit for bit
  std::optional<float> load_imbalance = {};   // with routers; train_step.h
  std::vector<float> tokens_per_expert = {};  // [L, E], row by row; empty without routers
  float dropped_tokens = 0;                   // tokens without room in the first attempt
  bool repeated = false;                      // with room for all; other numbers are the repeat's
  bool skipped = false;                       // because of dropped tokens alone
};

// The losses of some labels, added. A mean is one division, after all sums.
struct LossSum {
  double losses = 0;
  std::int64_t labels = 0;

  void add(const LossSum& more) {
    losses += more.losses;
    labels += more.labels;
  }
  // REQUIRES: labels > 0.
  double mean() const { return losses / static_cast<double>(labels); }
};

class StepRunner {
 public:
  // `program` must outlive this. `shared` comes from share_resources(program.all(), ...).
  StepRunner(const StepProgram& program, const TrainState& state, const SharedResources& shared);

  // Issues a step after those in flight, at most one. REQUIRES: every step in flight is finite.
  void begin(StepBatch batch, double learning_rate);
  // Waits for the oldest step in flight and for no later work. If its experts overflowed, it is
  // repeated or skipped, and the next step begins again. REQUIRES: in_flight() > 0.
  StepResult finish();
  std::size_t in_flight() const { return steps_.size(); }
  StepResult run(StepBatch batch, double learning_rate) {
    begin(std::move(batch), learning_rate);
    return finish();
  }
  // Returns the losses of a batch over all ranks.
  LossSum validate(const StepBatch& batch);
  // Returns the counts of one step over all its calls, complete after two steps; nullopt unless
  // steps are replayed.
  std::optional<ReplayStats> replay_stats() const;

 private:
  struct Step {
    StepBatch batch;
    double learning_rate = 0;
    std::vector<at::Tensor> results = {};  // on the device, until the next step
    bool did_nothing = false;              // because the previous step halted
  };
  // A bound function, and the staging memory for the batch inputs of the steps in flight.
  struct Bound {
    std::unique_ptr<Executor> executor;
    StagedBatches batches;
  };
  static constexpr std::size_t kInFlight = 2;

  void bind(const std::vector<Call>& calls, const TrainState& state);
  std::vector<at::Tensor> issue(const std::vector<Call>& calls, const Step& step);
  void launch(Step& step);
  void begin_again();

  const StepProgram& program_;
  at::Tensor halted_;       // state; undefined without training
  SharedResources shared_;  // declared before the executors, which are destroyed first
  std::map<const CompiledStep*, Bound> bound_;
  std::optional<PipelineRunner> pipeline_;
  std::deque<Step> steps_;  // in flight, oldest first
  DeferredReadback numbers_;
};

}  // namespace rondo

// Runs the actions of a rank in a pipeline schedule (parallel/pipeline/program.h) in their order:
// the subgraphs of its stages as executors, and messages from and to the ranks of neighbouring
// stages.
//
// A received tensor lives from its message until the last subgraph that reads it. Each backward
// reduces its gradients and accumulates them, or only accumulates them, and the last microbatch's
// reduces the sums (GradientSync). So REDUCE_GRAD does nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/loader.h"
#include "parallel/groups/messages.h"
#include "trainer/step/pipeline_stage.h"

namespace rondo {

class PipelineRunner {
 public:
  // `compiled` and `state` must outlive this; `shared` as for StepRunner.
  PipelineRunner(const CompiledPipeline& compiled, const TrainState& state, const SharedResources& shared);
  ~PipelineRunner();

  // Runs all microbatches of a step. Throws Error(peer) if another rank is lost.
  void run(const StepBatch& batch);
  // Returns this rank's sum of the losses of a batch: [], 0 without a head.
  at::Tensor validate(const Batch& batch);
  // Returns how often a step runs each executor.
  std::map<const Executor*, std::int64_t> runs_of_a_step() const;

 private:
  struct Received {  // from another rank, or copied from a stage of this rank
    at::Tensor tensor;
    std::optional<Message> message;  // in flight
  };

  // A pair and the slots of its two microbatches.
  using PairInSlots = std::tuple<const CompiledPair*, std::int32_t, std::int32_t>;

  void bind_pairs(const SharedResources& shared);
  PairInSlots in_slots(const CompiledPair& pair, const pipeline::Action& forward,
                       const pipeline::Action& backward) const;
  void play(const pipeline::Action& action);  // messages, unshard and reshard
  void unshard_for(const pipeline::Action& next);
  void compute(const pipeline::Action& action, const StepBatch& batch);
  void compute(const pipeline::Action& forward, const pipeline::Action& backward, const StepBatch& batch);
  // Returns nullptr if the two run one after the other.
  Executor* executor(const pipeline::Action& forward, const pipeline::Action& backward) const;
  // `streams_for` waits for the action's inputs from other stages; `finish` passes on its results.
  Streams streams_for(const pipeline::Action& compute);
  void finish(const pipeline::Action& compute);
  PipelineStage& stage(std::int64_t number) const;
  std::string edge(const pipeline::Action& message) const;

  const CompiledPipeline& compiled_;
  std::vector<std::unique_ptr<PipelineStage>> stages_;  // in the order of compiled_.stages
  std::map<PairInSlots, std::unique_ptr<Executor>> pairs_;
  std::map<std::pair<std::int32_t, std::int32_t>, Received> hidden_, gradients_;  // by stage, microbatch
  const at::Tensor no_loss_;
};

}  // namespace rondo

// Plays a rank's program of a pipeline schedule (parallel/pipeline/program.h): its actions in their order,
// with the bodies of its stages as executors, and messages to and from the ranks of the stages around.
//
// What a stage receives lies in a tensor of its own from the message until the last body that reads it.
// Gradients are reduced and added up microbatch by microbatch, in the bodies, or added up there and reduced
// by the update, as GradientSync says; REDUCE_GRAD has nothing left to do.
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
  // `compiled` and `state` outlive this; `shared` as for StepRunner.
  PipelineRunner(const CompiledPipeline& compiled, const TrainState& state, const SharedResources& shared);
  ~PipelineRunner();

  // All microbatches of a step. Throws Error(peer) where another rank is lost.
  void run(const StepBatch& batch);
  // The rank's share of the loss of a batch: [], 0 where it has no head.
  at::Tensor validate(const Batch& batch, std::int64_t valid_tokens);
  // How often a step runs each executor.
  std::map<const Executor*, std::int64_t> runs_of_a_step() const;

 private:
  struct Received {  // or handed on by a stage of this rank
    at::Tensor tensor;
    std::optional<Message> message;  // under way
  };

  // A pair of one of the program's, and the slots of its microbatches.
  using PairInSlots = std::tuple<const CompiledPair*, std::int32_t, std::int32_t>;

  void bind_pairs(const SharedResources& shared);
  PairInSlots in_slots(const CompiledPair& pair, const pipeline::Action& forward,
                       const pipeline::Action& backward) const;
  void play(const pipeline::Action& action);  // one that computes nothing
  void compute(const pipeline::Action& action, const StepBatch& batch);
  void compute(const pipeline::Action& forward, const pipeline::Action& backward, const StepBatch& batch);
  // nullptr where the two run one after the other.
  Executor* executor(const pipeline::Action& forward, const pipeline::Action& backward) const;
  // What the action reads of other stages, once it has come; and what becomes of all that it has made.
  Streams streams_for(const pipeline::Action& compute);
  void finish(const pipeline::Action& compute);
  PipelineStage& stage(std::int64_t number) const;
  std::string edge(const pipeline::Action& message) const;

  const CompiledPipeline& compiled_;
  std::vector<std::unique_ptr<PipelineStage>> stages_;  // as compiled_.stages
  std::map<PairInSlots, std::unique_ptr<Executor>> pairs_;
  std::map<std::pair<std::int32_t, std::int32_t>, Received> hidden_, gradients_;  // by stage, microbatch
  const at::Tensor no_loss_;
};

}  // namespace rondo

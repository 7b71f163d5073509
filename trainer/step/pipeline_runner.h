// Plays a rank's program of a pipeline schedule (parallel/pipeline/program.h): its actions in their order,
// with the bodies of its stages as executors, and messages to and from the ranks of the stages around.
//
// A stage has a slot for each microbatch that is in flight at once, microbatch m slot m mod slots, and fewer
// for what lasts from I to W alone; each body is bound once a slot, so that every address is fixed and a
// device records it once a slot. What a stage receives lies in a tensor of its own from the message until the
// last body that reads it.
//
// Gradients are reduced and added up microbatch by microbatch, in the bodies; REDUCE_GRAD has nothing left to
// do. Under fsdp_reshard_after_forward = "never" weights are gathered once a step, before the first body of a
// stage or at UNSHARD, and once more after RESHARD; else by each body.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/execute/host_transfers.h"
#include "parallel/groups/messages.h"
#include "trainer/data/loader.h"
#include "trainer/step/compiled_functions.h"
#include "trainer/step/train_state.h"

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
  // Of a step, over all bodies; none unless they are replayed. Complete after two steps.
  std::optional<ReplayFacts> facts() const;

 private:
  class Stage;
  struct Received {  // or handed on by a stage of this rank
    at::Tensor tensor;
    std::optional<Message> message;  // under way
  };

  void play(const pipeline::Action& action, const StepBatch& batch);
  void compute(const pipeline::Action& action, const StepBatch& batch);
  // What the action reads of another stage; undefined at the ends of the pipeline.
  at::Tensor received(const pipeline::Action& compute);
  Stage& stage(std::int64_t number);
  std::string edge(const pipeline::Action& message) const;

  const CompiledPipeline& compiled_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::map<std::pair<std::int32_t, std::int32_t>, Received> hidden_, gradients_;  // by stage, microbatch
  const at::Tensor no_loss_;
};

}  // namespace rondo

// A stage of a pipeline on its rank: its bodies as executors, and what one of them leaves for another.
//
// A stage has a slot for each microbatch that is in flight at once, microbatch m slot m mod slots, and fewer
// for what lasts from I to W alone; each body is bound once a slot, so that every address is fixed and a
// device records it once a slot.
//
// Under fsdp_reshard_after_forward = "never" weights are gathered by unshard(), once a step and once more
// after reshard(); else by each body.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/execute/host_transfers.h"
#include "datasets/loader.h"
#include "parallel/groups/messages.h"
#include "trainer/step/functions/batch_tensor.h"
#include "trainer/step/pipeline_program.h"
#include "trainer/step/train_state.h"

namespace rondo {

// What a body reads of other stages; undefined at the ends of the pipeline, and before it has come.
struct Streams {
  at::Tensor hidden, gradient;
};

class PipelineStage {
 public:
  // `compiled` and `state` outlive this; `shared` as for StepRunner. `microbatches`: of a step.
  PipelineStage(const CompiledStage& compiled, const TrainState& state, const SharedResources& shared,
                std::int32_t microbatches);

  std::int64_t number() const { return compiled_.stage; }
  bool has_head() const { return compiled_.head; }

  void unshard();  // before any body runs; does nothing where the weights are there
  void reshard() { is_unsharded_ = false; }
  void run(ir::Body body, std::int32_t microbatch, const StepBatch& batch, const Streams& streams);
  // What a body takes that runs in a pair: its batch, once what it writes anew has left; its state, by the
  // body's own names.
  std::vector<at::Tensor> prepare(ir::Body body, std::int32_t microbatch, const StepBatch& batch,
                                  const Streams& streams);
  at::Tensor state_tensor(const StepInput& input, std::int32_t microbatch) const;
  std::int32_t slot_number(std::int32_t microbatch) const;
  // Leaves kSentHidden or BatchTensor::stage_loss, and returns it.
  const at::Tensor& validate(const Batch& batch, std::int64_t valid_tokens, const at::Tensor& hidden);

  // kSentHidden or kSentGradient, and the message that takes it away.
  const at::Tensor& sent(const std::string& name, std::int32_t microbatch);
  Message& sending(const std::string& name, std::int32_t microbatch);
  void wait_for_sent();
  // A tensor for what comes in.
  at::Tensor to_receive(bool in_validation) const;

  // nullptr where there is nothing to run.
  Executor* executor(ir::Body body, std::int32_t microbatch) const;

 private:
  using SavedTensors = std::map<std::string, at::Tensor>;
  struct Slot {
    SavedTensors saved = {};
    std::map<ir::Body, std::unique_ptr<Executor>> bodies = {};
    Message sending_hidden = {}, sending_gradient = {};  // out of `saved`
  };

  Slot& slot_of(std::int32_t microbatch);
  at::Tensor state_tensor(const StepInput& input, const SavedTensors& saved) const;
  std::vector<at::Tensor> state_of(const StepFunction& function, const SavedTensors& saved) const;
  void take_memory_of_batches(const CompiledBody& body);
  std::vector<at::Tensor> batch_of(ir::Body body, const BatchSource& source);
  void wait_for_room(ir::Body body, std::int32_t microbatch);
  void run_eagerly(ir::Body body, std::int32_t microbatch, const StepBatch& batch, const Streams& streams);

  const CompiledStage& compiled_;
  const TrainState& state_;
  const c10::Device device_;
  SavedTensors unsharded_, validated_;
  bool is_unsharded_ = false;
  std::map<ir::Body, StagedBatches> batches_;
  std::unique_ptr<Executor> unshard_, validate_;
  std::vector<Slot> slots_;
};

}  // namespace rondo

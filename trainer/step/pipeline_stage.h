// A stage of a pipeline on its rank: its subgraphs as executors, and the values that they save for
// each other.
//
// A stage has one slot for each microbatch in flight, microbatch m in slot m mod slots, and fewer
// for values that live from I to W only. Each subgraph is bound once per slot, so that all
// addresses are fixed and a device records it once per slot.
//
// Weights are gathered once a step, and again after reshard(), if fsdp_reshard_after_forward is
// "never": by unshard(), or by the first forward of a stage that receives nothing. Otherwise each
// subgraph gathers them.
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

// The inputs of a subgraph from other stages; undefined at the ends of the pipeline.
struct Streams {
  at::Tensor hidden, gradient;
};

class PipelineStage {
 public:
  // `compiled` and `state` must outlive this; `shared` as for StepRunner. `microbatches`: of
  // a step.
  PipelineStage(const CompiledStage& compiled, const TrainState& state, const SharedResources& shared,
                std::int32_t microbatches);

  std::int64_t number() const { return compiled_.stage; }
  bool has_head() const { return compiled_.head; }

  // Gathers the weights unless they are gathered. Called before any subgraph, except for a forward
  // that gathers them itself.
  void unshard();
  bool gathers_itself(ir::Body body, std::int32_t microbatch) const;
  void reshard() { is_unsharded_ = false; }
  // Reduces the gradient sums that the last backward has not reduced. Called after the last
  // microbatch.
  void reduce();
  void run(ir::Body body, std::int32_t microbatch, const StepBatch& batch, const Streams& streams);
  // Returns the batch inputs of a subgraph that runs in a pair, after it has waited for the
  // messages whose memory the subgraph overwrites.
  std::vector<at::Tensor> prepare(ir::Body body, std::int32_t microbatch, const StepBatch& batch,
                                  const Streams& streams);
  // Returns a state input, by its name in the subgraph.
  at::Tensor state_tensor(const StepInput& input, std::int32_t microbatch) const;
  std::int32_t slot_number(std::int32_t microbatch) const;
  // Writes kSentHidden or BatchTensor::stage_loss, and returns it.
  const at::Tensor& validate(const Batch& batch, const at::Tensor& hidden);

  // Return the tensor kSentHidden or kSentGradient, and the message that sends it.
  const at::Tensor& sent(const std::string& name, std::int32_t microbatch);
  Message& sending(const std::string& name, std::int32_t microbatch);
  void wait_for_sent();
  // Allocates a tensor for the hidden states or gradients that the stage receives.
  at::Tensor to_receive(bool in_validation) const;

  // Returns nullptr if the body is empty. The last microbatch has another backward if it reduces.
  Executor* executor(ir::Body body, std::int32_t microbatch) const;
  Executor* reduce_executor() const { return reduce_.get(); }

 private:
  using SavedTensors = std::map<std::string, at::Tensor>;
  struct Slot {
    SavedTensors saved = {};
    std::map<ir::Body, std::unique_ptr<Executor>> bodies = {};
    Message sending_hidden = {}, sending_gradient = {};  // their tensors are in `saved`
  };

  bool runs_in_slot(ir::Body body, std::size_t slot) const;
  Slot& slot_of(std::int32_t microbatch);
  at::Tensor state_tensor(const StepInput& input, const SavedTensors& saved) const;
  std::vector<at::Tensor> state_of(const StepFunction& function, const SavedTensors& saved) const;
  void reserve_batches(const CompiledBody& body);
  std::vector<at::Tensor> batch_of(ir::Body body, const BatchSource& source);
  void wait_for_room(ir::Body body, std::int32_t microbatch);
  void run_eagerly(ir::Body body, std::int32_t microbatch, const StepBatch& batch, const Streams& streams);

  const CompiledStage& compiled_;
  const TrainState& state_;
  const c10::Device device_;
  SavedTensors unsharded_, validated_;
  bool is_unsharded_ = false;
  std::map<ir::Body, StagedBatches> batches_;
  std::unique_ptr<Executor> unshard_, reduce_, validate_;
  std::int32_t last_microbatch_;
  std::vector<Slot> slots_;
};

}  // namespace rondo

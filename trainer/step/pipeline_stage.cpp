// Binds and runs the subgraphs of a stage. Saved values are in one block of the replays' pool, slot
// after slot, which is allocated before any body is bound. Each body stages its own batches, as
// many as a step has, so that no microbatch in transfer is overwritten.
#include "trainer/step/pipeline_stage.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;
using SavedTensors = std::map<std::string, Tensor>;

Tensor allocated(const ir::TensorType& type, c10::Device device) {
  return at::empty_strided(type.sizes, type.strides,
                           at::TensorOptions().dtype(to_aten(type.dtype)).device(device));
}
// Allocates `count` sets of these tensors, in one block of the replays' pool if there is one, so
// that kernels write results into it.
std::vector<SavedTensors> allocated(const std::map<std::string, ir::TensorType>& types, std::int32_t count,
                                    c10::Device device, const std::shared_ptr<ReplayMemory>& memory) {
  constexpr std::int64_t kAlignment = 512;  // the caching allocator's
  std::int64_t bytes = 0;
  for (const auto& [name, type] : types) bytes += count * ir::planned_bytes(type, kAlignment);
  char* next = memory && bytes > 0 ? memory->device().reserve(static_cast<std::size_t>(bytes)) : nullptr;
  std::vector<SavedTensors> slots(static_cast<std::size_t>(count));
  for (SavedTensors& tensors : slots) {
    for (const auto& [name, type] : types) {
      if (next == nullptr) {
        tensors[name] = allocated(type, device);
        continue;
      }
      tensors[name] = at::from_blob(next, type.sizes, type.strides,
                                    at::TensorOptions().dtype(to_aten(type.dtype)).device(device));
      next += ir::planned_bytes(type, kAlignment);
    }
  }
  return slots;
}

BatchSource source_of(const StepBatch& batch, std::int32_t microbatch, const Streams& streams) {
  return {.microbatch = &batch.microbatches[static_cast<std::size_t>(microbatch)],
          .valid_tokens = batch.valid_tokens,
          .received_hidden = streams.hidden,
          .received_gradient = streams.gradient};
}

bool is_of_one_microbatch(ir::Body body) {
  return body == ir::Body::unshard_forward || body == ir::Body::last_backward;
}

// Allocates the tensor that the function receives; undefined if it receives nothing.
Tensor to_receive(const CompiledStep& step, c10::Device device) {
  for (const StepInput& input : step.function().inputs)
    if (is_received(input)) return allocated(input.type, device);
  return {};
}

}  // namespace

PipelineStage::PipelineStage(const CompiledStage& compiled, const TrainState& state,
                             const SharedResources& shared, std::int32_t microbatches)
    : compiled_(compiled),
      state_(state),
      device_(state.tensor(kHalted).device()),
      last_microbatch_(microbatches - 1) {
  unsharded_ = allocated(compiled.saved(Lifetime::step), 1, device_, shared.memory)[0];
  const std::vector<SavedTensors> pending =
      allocated(compiled.saved(Lifetime::pending), compiled.pending_slots, device_, shared.memory);
  if (const CompiledStep* step = compiled.body(ir::Body::unshard))
    unshard_ = step->bind(state_of(step->function(), {}), shared);
  for (SavedTensors& saved :
       allocated(compiled.saved(Lifetime::microbatch), compiled.slots, device_, shared.memory)) {
    saved.insert(pending[slots_.size() % pending.size()].begin(),
                 pending[slots_.size() % pending.size()].end());
    Slot& slot = slots_.emplace_back();
    slot.saved = std::move(saved);
    for (const CompiledBody& body : compiled.bodies)
      if (runs_in_slot(body.body, slots_.size() - 1))
        slot.bodies[body.body] = body.step.bind(state_of(body.step.function(), slot.saved), shared);
  }
  for (const CompiledBody& body : compiled.bodies) {
    if (is_of_one_microbatch(body.body)) continue;  // it takes the batches of the other ones
    batches_.try_emplace(body.body, shared.memory, 2 * static_cast<std::size_t>(microbatches));
    reserve_batches(body);
  }
  if (compiled.reduce) reduce_ = compiled.reduce->bind(state_of(compiled.reduce->function(), {}), shared);
  if (!compiled.validate) return;
  for (const StepInput& input : compiled.validate->function().inputs)
    if (input.kind == ir::InputKind::saved) validated_[input.name] = allocated(input.type, device_);
  validate_ = compiled.validate->bind(state_of(compiled.validate->function(), validated_), shared);
}

bool PipelineStage::runs_in_slot(ir::Body body, std::size_t slot) const {
  if (body == ir::Body::unshard_forward) return slot == 0;
  if (body == ir::Body::last_backward)
    return static_cast<std::int32_t>(slot) == last_microbatch_ % compiled_.slots;
  return body != ir::Body::unshard;
}

void PipelineStage::reduce() {
  if (reduce_) reduce_->run({});
}

void PipelineStage::unshard() {
  if (unshard_ && !is_unsharded_) unshard_->run({});
  is_unsharded_ = true;
}

bool PipelineStage::gathers_itself(ir::Body body, std::int32_t microbatch) const {
  return body == ir::Body::forward && !is_unsharded_ &&
         executor(ir::Body::unshard_forward, microbatch) != nullptr;
}

void PipelineStage::run(ir::Body body, std::int32_t microbatch, const StepBatch& batch,
                        const Streams& streams) {
  if (compiled_.accumulate) return run_eagerly(body, microbatch, batch, streams);
  const bool gathers = gathers_itself(body, microbatch);
  Executor* const bound = executor(gathers ? ir::Body::unshard_forward : body, microbatch);
  if (bound == nullptr) return;  // the input gradient of the first stage
  bound->run(prepare(body, microbatch, batch, streams));
  is_unsharded_ = is_unsharded_ || gathers;
}

std::vector<Tensor> PipelineStage::prepare(ir::Body body, std::int32_t microbatch, const StepBatch& batch,
                                           const Streams& streams) {
  wait_for_room(body, microbatch);
  return batch_of(body, source_of(batch, microbatch, streams));
}

// Waits until the messages whose memory the body overwrites are sent. backward_weight
// overwrites none.
void PipelineStage::wait_for_room(ir::Body body, std::int32_t microbatch) {
  Slot& slot = slot_of(microbatch);
  if (body == ir::Body::forward) slot.sending_hidden.wait();
  if (body == ir::Body::backward || body == ir::Body::backward_input) slot.sending_gradient.wait();
}

const Tensor& PipelineStage::validate(const Batch& batch, const Tensor& hidden) {
  const BatchSource source{.microbatch = &batch, .received_hidden = hidden};
  validate_->run(source.tensors(compiled_.validate->function()));
  return validated_.begin()->second;
}

const Tensor& PipelineStage::sent(const std::string& name, std::int32_t microbatch) {
  return slot_of(microbatch).saved.at(name);
}

Message& PipelineStage::sending(const std::string& name, std::int32_t microbatch) {
  Slot& slot = slot_of(microbatch);
  return name == kSentHidden ? slot.sending_hidden : slot.sending_gradient;
}

void PipelineStage::wait_for_sent() {
  for (Slot& slot : slots_) {
    slot.sending_hidden.wait();
    slot.sending_gradient.wait();
  }
}

Tensor PipelineStage::to_receive(bool in_validation) const {
  if (in_validation) return rondo::to_receive(*compiled_.validate, device_);
  if (compiled_.accumulate) return rondo::to_receive(*compiled_.accumulate, device_);
  for (const CompiledBody& body : compiled_.bodies)
    if (Tensor tensor = rondo::to_receive(body.step, device_); tensor.defined()) return tensor;
  RONDO_ASSERT(false, "a stage reads what it receives");
}

Executor* PipelineStage::executor(ir::Body body, std::int32_t microbatch) const {
  if (body == ir::Body::unshard) return unshard_.get();
  const auto& bodies = slots_[static_cast<std::size_t>(slot_number(microbatch))].bodies;
  if (microbatch == last_microbatch_ && body == compiled_.last)
    if (const auto last = bodies.find(ir::Body::last_backward); last != bodies.end())
      return last->second.get();
  const auto match = bodies.find(body);
  return match == bodies.end() ? nullptr : match->second.get();
}

std::int32_t PipelineStage::slot_number(std::int32_t microbatch) const {
  return microbatch % static_cast<std::int32_t>(slots_.size());
}

PipelineStage::Slot& PipelineStage::slot_of(std::int32_t microbatch) {
  return slots_[static_cast<std::size_t>(slot_number(microbatch))];
}

Tensor PipelineStage::state_tensor(const StepInput& input, const SavedTensors& saved) const {
  if (input.kind != ir::InputKind::saved) return state_.tensor(input.name);
  const auto match = saved.find(input.name);
  return match != saved.end() ? match->second : unsharded_.at(input.name);
}

Tensor PipelineStage::state_tensor(const StepInput& input, std::int32_t microbatch) const {
  return state_tensor(input, slots_[static_cast<std::size_t>(slot_number(microbatch))].saved);
}

std::vector<Tensor> PipelineStage::state_of(const StepFunction& function, const SavedTensors& saved) const {
  std::vector<Tensor> tensors;
  for (const StepInput& input : function.inputs)
    if (input.kind != ir::InputKind::batch) tensors.push_back(state_tensor(input, saved));
  return tensors;
}

// Reserves the staging memory of a body. Called before any body is recorded, which must
// not allocate.
void PipelineStage::reserve_batches(const CompiledBody& body) {
  std::vector<Tensor> like;
  for (const StepInput& input : body.step.function().inputs)
    if (input.kind == ir::InputKind::batch && !is_received(input))
      like.push_back(allocated(input.type, c10::kCPU).zero_());
  batches_.at(body.body).stage(like);
}

// Stages tensors on the host; received tensors are used in place.
std::vector<Tensor> PipelineStage::batch_of(ir::Body body, const BatchSource& source) {
  std::vector<Tensor> from_host, inputs;
  for (const StepInput& input : compiled_.body(body)->function().inputs) {
    if (input.kind != ir::InputKind::batch) continue;
    inputs.push_back(is_received(input) ? source.tensor(input) : Tensor());
    if (!is_received(input)) from_host.push_back(source.tensor(input));
  }
  const std::vector<Tensor> staged = batches_.at(body).stage(from_host);
  for (auto next = staged.begin(); Tensor & tensor : inputs)
    if (!tensor.defined()) tensor = *next++;
  return inputs;
}

void PipelineStage::run_eagerly(ir::Body body, std::int32_t microbatch, const StepBatch& batch,
                                const Streams& streams) {
  wait_for_room(body, microbatch);
  const BatchSource source = source_of(batch, microbatch, streams);
  std::vector<Tensor> inputs;
  for (const StepInput& input : compiled_.accumulate->function().inputs) {
    if (input.kind != ir::InputKind::batch) {
      inputs.push_back(state_tensor(input, microbatch));
      continue;
    }
    inputs.push_back(is_received(input) ? source.tensor(input) : source.tensor(input).to(device_));
  }
  const ObservedRun observed(compiled_.accumulate->function().name + "." + std::string(name_of(body)));
  compiled_.eager(body, microbatch, inputs);
}

}  // namespace rondo

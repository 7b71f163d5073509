// Messages begin where the program says so and are waited for by what reads them, so a rank waits for less
// than the proof of the program lets it. What goes from one stage of a rank to the next is copied like a
// message: the slot that it lies in may be taken again before it is read for the last time.
#include "trainer/step/pipeline_runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "support/error.h"
#include "support/scope.h"
#include "trainer/step/batch_tensors.h"

namespace rondo {
namespace {

using at::Tensor;
using pipeline::Action;
using pipeline::ActionType;
using SavedTensors = std::map<std::string, Tensor>;

ir::Body body_of(ActionType type) {
  switch (type) {
    case ActionType::forward:
      return ir::Body::forward;
    case ActionType::backward:
      return ir::Body::backward;
    case ActionType::backward_input:
      return ir::Body::backward_input;
    case ActionType::backward_weight:
      return ir::Body::backward_weight;
    default:
      RONDO_ASSERT(false, "the action computes nothing");
  }
}

Tensor allocated(const ir::TensorType& type, c10::Device device) {
  return at::empty_strided(type.sizes, type.strides,
                           at::TensorOptions().dtype(to_aten(type.dtype)).device(device));
}
// `count` times these, in one block of the replays' pool, where there is one, so that kernels put results
// there.
std::vector<SavedTensors> allocated(const std::map<std::string, ir::TensorType>& types, std::int32_t count,
                                    c10::Device device, const std::shared_ptr<ReplayMemory>& memory) {
  constexpr std::int64_t kAlignment = 512;  // the caching allocator's
  std::int64_t bytes = 0;
  for (const auto& [name, type] : types) bytes += count * ir::planned_bytes(type, kAlignment);
  char* next = memory && bytes > 0 ? memory->device().reserve(static_cast<std::size_t>(bytes)) : nullptr;
  std::vector<SavedTensors> all(static_cast<std::size_t>(count));
  for (SavedTensors& tensors : all) {
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
  return all;
}

// The numbers of one executor's run, in those of a step with `runs` of them.
void add(ReplayFacts& all, const ReplayFacts& one, std::int64_t runs) {
  all.instructions += runs * one.instructions;
  all.views += one.views;
  all.segments += runs * one.segments;
  all.recorded_ops += runs * one.recorded_ops;
  all.batch_bytes += runs * one.batch_bytes;
  all.state_bytes += runs * one.state_bytes;
  all.copied_results += runs * one.copied_results;
  all.arena_bytes = std::max(all.arena_bytes, one.arena_bytes);
  all.pool_bytes = std::max(all.pool_bytes, one.pool_bytes);
  if (one.heap_bytes > all.heap_bytes) {
    all.heap_bytes = one.heap_bytes;
    all.largest_workspace_op = one.largest_workspace_op;
  }
  all.free_bytes_before = std::max(all.free_bytes_before, one.free_bytes_before);
  all.free_bytes_after = one.free_bytes_after;
  all.warm_up_ms += one.warm_up_ms;
  all.capture_ms += one.capture_ms;
}

}  // namespace

// What a body reads beside its own state.
struct Streams {
  Tensor hidden, gradient;  // undefined at the ends of the pipeline, and before they have come
};

class PipelineRunner::Stage {
 public:
  Stage(const CompiledStage& compiled, const TrainState& state, const SharedResources& shared,
        std::int32_t microbatches)
      : compiled_(compiled), state_(state), device_(state.tensor(kHalted).device()) {
    unsharded_ = allocated(compiled.saved(Lasting::step), 1, device_, shared.memory)[0];
    const std::vector<SavedTensors> pending =
        allocated(compiled.saved(Lasting::pending), compiled.pending_slots, device_, shared.memory);
    if (const CompiledStep* step = compiled.body(ir::Body::unshard))
      unshard_ = step->bind(state_of(step->function(), {}), shared);
    for (SavedTensors& saved :
         allocated(compiled.saved(Lasting::microbatch), compiled.slots, device_, shared.memory)) {
      saved.insert(pending[slots_.size() % pending.size()].begin(),
                   pending[slots_.size() % pending.size()].end());
      Slot& slot = slots_.emplace_back();
      slot.saved = std::move(saved);
      for (const CompiledBody& body : compiled.bodies)
        if (body.body != ir::Body::unshard)
          slot.bodies[body.body] = body.step.bind(state_of(body.step.function(), slot.saved), shared);
    }
    for (const CompiledBody& body : compiled.bodies) {
      batches_.try_emplace(body.body, shared.memory, 2 * static_cast<std::size_t>(microbatches));
      take_memory_of_batches(body);
    }
    if (!compiled.validate) return;
    for (const StepInput& input : compiled.validate->function().inputs)
      if (input.kind == ir::InputKind::saved) validated_[input.name] = allocated(input.type, device_);
    validate_ = compiled.validate->bind(state_of(compiled.validate->function(), validated_), shared);
  }

  std::int64_t number() const { return compiled_.stage; }
  bool has_head() const { return compiled_.head; }

  void unshard() {
    if (unshard_ && !is_unsharded_) unshard_->run({});
    is_unsharded_ = true;
  }
  void reshard() { is_unsharded_ = false; }

  void run(ir::Body body, std::int32_t microbatch, const StepBatch& batch, const Streams& streams) {
    unshard();
    Slot& slot = slot_of(microbatch);
    // What the body writes anew must have left; gradients of weights go on beside a message.
    if (body == ir::Body::forward) slot.sending_hidden.wait();
    if (body == ir::Body::backward || body == ir::Body::backward_input) slot.sending_gradient.wait();
    const Batch& rows = batch.microbatches[static_cast<std::size_t>(microbatch)];
    if (compiled_.accumulate) return run_eagerly(body, microbatch, rows, batch.valid_tokens, streams);
    const auto executor = slot.bodies.find(body);
    if (executor == slot.bodies.end()) return;  // the first stage's gradient of an input: nobody wants it
    executor->second->run(batch_of(body, rows, batch.valid_tokens, streams));
  }

  // Leaves kSentHidden or kStageLoss.
  const Tensor& validate(const Batch& batch, std::int64_t valid_tokens, const Tensor& hidden) {
    std::vector<Tensor> tensors;
    for (const StepInput& input : compiled_.validate->function().inputs)
      if (input.kind == ir::InputKind::batch)
        tensors.push_back(input.name == kReceivedHidden ? hidden : batch_tensor(batch, input, valid_tokens));
    validate_->run(tensors);
    return validated_.begin()->second;
  }

  const Tensor& sent(const std::string& name, std::int32_t microbatch) {
    return slot_of(microbatch).saved.at(name);
  }
  Message& sending(const std::string& name, std::int32_t microbatch) {
    Slot& slot = slot_of(microbatch);
    return name == kSentHidden ? slot.sending_hidden : slot.sending_gradient;
  }
  void wait_for_sent() {
    for (Slot& slot : slots_) {
      slot.sending_hidden.wait();
      slot.sending_gradient.wait();
    }
  }
  // A tensor for what comes in.
  Tensor to_receive(const CompiledStep& step) const {
    for (const StepInput& input : step.function().inputs)
      if (is_stream(input)) return allocated(input.type, device_);
    return {};
  }
  Tensor to_receive(bool in_validation) const {
    if (in_validation) return to_receive(*compiled_.validate);
    if (compiled_.accumulate) return to_receive(*compiled_.accumulate);
    for (const CompiledBody& body : compiled_.bodies)
      if (Tensor tensor = to_receive(body.step); tensor.defined()) return tensor;
    RONDO_ASSERT(false, "a stage that receives something reads it");
  }

  void add_facts(ReplayFacts& facts, std::int64_t microbatches) const {
    if (unshard_) add(facts, *unshard_->facts(), 1);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto slots = static_cast<std::int64_t>(slots_.size());
      const std::int64_t runs = (microbatches - static_cast<std::int64_t>(i) + slots - 1) / slots;
      for (const auto& [body, executor] : slots_[i].bodies) add(facts, *executor->facts(), runs);
    }
  }
  bool is_replayed() const { return !slots_[0].bodies.empty() && slots_[0].bodies.begin()->second->facts(); }

 private:
  struct Slot {
    SavedTensors saved = {};
    std::map<ir::Body, std::unique_ptr<Executor>> bodies = {};
    Message sending_hidden = {}, sending_gradient = {};  // out of `saved`
  };

  Slot& slot_of(std::int32_t microbatch) {
    return slots_[static_cast<std::size_t>(microbatch) % slots_.size()];
  }

  Tensor state_tensor(const StepInput& input, const SavedTensors& saved) const {
    if (input.kind != ir::InputKind::saved) return state_.tensor(input.name);
    const auto found = saved.find(input.name);
    return found != saved.end() ? found->second : unsharded_.at(input.name);
  }
  std::vector<Tensor> state_of(const StepFunction& function, const SavedTensors& saved) const {
    std::vector<Tensor> tensors;
    for (const StepInput& input : function.inputs)
      if (input.kind != ir::InputKind::batch) tensors.push_back(state_tensor(input, saved));
    return tensors;
  }

  // Before the first recording of any body.
  void take_memory_of_batches(const CompiledBody& body) {
    std::vector<Tensor> like;
    for (const StepInput& input : body.step.function().inputs)
      if (input.kind == ir::InputKind::batch && !is_stream(input))
        like.push_back(allocated(input.type, c10::kCPU).zero_());
    batches_.at(body.body).stage(like);
  }

  static bool is_stream(const StepInput& input) {
    return input.name == kReceivedHidden || input.name == kReceivedGradient;
  }
  static Tensor stream_of(const StepInput& input, const Streams& streams) {
    if (input.name == kReceivedHidden) return streams.hidden;
    return input.name == kReceivedGradient ? streams.gradient : Tensor();
  }

  // What lies on the host is staged; what was received lies where it is read.
  std::vector<Tensor> batch_of(ir::Body body, const Batch& batch, std::int64_t valid_tokens,
                               const Streams& streams) {
    std::vector<Tensor> from_host, all;
    for (const StepInput& input : compiled_.body(body)->function().inputs) {
      if (input.kind != ir::InputKind::batch) continue;
      all.push_back(stream_of(input, streams));
      if (!all.back().defined()) from_host.push_back(batch_tensor(batch, input, valid_tokens));
    }
    const std::vector<Tensor> staged = batches_.at(body).stage(from_host);
    for (auto next = staged.begin(); Tensor & tensor : all)
      if (!tensor.defined()) tensor = *next++;
    return all;
  }

  void run_eagerly(ir::Body body, std::int32_t microbatch, const Batch& batch, std::int64_t valid_tokens,
                   const Streams& streams) {
    std::vector<Tensor> inputs;
    for (const StepInput& input : compiled_.accumulate->function().inputs) {
      if (input.kind != ir::InputKind::batch) {
        inputs.push_back(state_tensor(input, slot_of(microbatch).saved));
        continue;
      }
      const Tensor stream = stream_of(input, streams), host = batch_tensor(batch, input, valid_tokens);
      inputs.push_back(host.defined() ? host.to(device_) : stream);
    }
    const ObservedRun observed(compiled_.accumulate->function().name + "." + std::string(name_of(body)));
    compiled_.eager(body, microbatch, inputs);
  }

  const CompiledStage& compiled_;
  const TrainState& state_;
  const c10::Device device_;
  SavedTensors unsharded_, validated_;
  bool is_unsharded_ = false;
  std::map<ir::Body, StagedBatches> batches_;
  std::unique_ptr<Executor> unshard_, validate_;
  std::vector<Slot> slots_;
};

PipelineRunner::PipelineRunner(const CompiledPipeline& compiled, const TrainState& state,
                               const SharedResources& shared)
    : compiled_(compiled), no_loss_(at::zeros_like(state.tensor(kHalted))) {
  for (const CompiledStage& stage : compiled.stages)
    stages_.push_back(std::make_unique<Stage>(stage, state, shared, compiled.program.microbatches));
}
PipelineRunner::~PipelineRunner() = default;

PipelineRunner::Stage& PipelineRunner::stage(std::int64_t number) {
  const auto found = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const auto& stage) { return stage->number() == number; });
  RONDO_ASSERT(found != stages_.end(), "a rank plays its own stages");
  return **found;
}

std::string PipelineRunner::edge(const Action& message) const {
  const auto other = static_cast<std::size_t>(compiled_.program.peer_of(message));
  const std::int64_t theirs = compiled_.ranks[other],
                     ours = compiled_.ranks[static_cast<std::size_t>(compiled_.rank)];
  return is_send(message.type) ? edge_name(ours, theirs) : edge_name(theirs, ours);
}

void PipelineRunner::run(const StepBatch& batch) {
  RONDO_ASSERT(std::ssize(batch.microbatches) == compiled_.program.microbatches,
               "a step has the microbatches of its program");
  for (const auto& stage : stages_) stage->reshard();
  for (const Action& action : compiled_.program.ranks[static_cast<std::size_t>(compiled_.rank)])
    play(action, batch);
  for (const auto& stage : stages_) stage->wait_for_sent();
}

void PipelineRunner::play(const Action& action, const StepBatch& batch) {
  if (is_compute(action.type)) return compute(action, batch);
  const PathScope scope("pipeline." + print(action));  // for who asks what a rank waits for
  const std::pair<std::int32_t, std::int32_t> place(action.stage, action.microbatch);
  const auto send_out = [&](const std::string& name) {
    Stage& own = stage(action.stage);
    own.sending(name, action.microbatch) = send(own.sent(name, action.microbatch), edge(action));
  };
  const auto receive_in = [&](auto& received) {
    Received& coming = received[place];
    coming.tensor = stage(action.stage).to_receive(/*in_validation=*/false);
    coming.message = receive(coming.tensor, edge(action));
  };
  switch (action.type) {
    case ActionType::send_forward:
      return send_out(kSentHidden);
    case ActionType::send_backward:
      return send_out(kSentGradient);
    case ActionType::receive_forward:
      return receive_in(hidden_);
    case ActionType::receive_backward:
      return receive_in(gradients_);
    case ActionType::unshard:
      return stage(action.stage).unshard();
    case ActionType::reshard:
      return stage(action.stage).reshard();
    default:
      return;  // gradients are reduced
  }
}

void PipelineRunner::compute(const Action& action, const StepBatch& batch) {
  const std::pair<std::int32_t, std::int32_t> place(action.stage, action.microbatch);
  const auto come = [&](auto& received) -> Tensor {
    const auto found = received.find(place);
    if (found == received.end()) return {};
    const PathScope scope("pipeline." + print(action));
    if (found->second.message) found->second.message->wait();
    return found->second.tensor;
  };
  const Streams streams{come(hidden_), come(gradients_)};
  const ir::Body body = body_of(action.type);
  Stage& own = stage(action.stage);
  own.run(body, action.microbatch, batch, streams);
  // To a neighbour on this rank.
  const auto hand_on = [&](const std::string& name, auto& received, std::int32_t to) {
    if (to < 0 || to >= compiled_.program.stages) return;
    if (compiled_.program.rank_of_stage[static_cast<std::size_t>(to)] != compiled_.rank) return;
    received[{to, action.microbatch}] = {own.sent(name, action.microbatch).clone(), std::nullopt};
  };
  if (action.type == ActionType::forward) hand_on(kSentHidden, hidden_, action.stage + 1);
  if (makes_input_gradient(action.type)) hand_on(kSentGradient, gradients_, action.stage - 1);
  if (!makes_weight_gradient(action.type)) return;
  hidden_.erase(place);
  gradients_.erase(place);
}

Tensor PipelineRunner::validate(const Batch& batch, std::int64_t valid_tokens) {
  Tensor hidden, loss;
  std::vector<Message> sending;
  for (const auto& own : stages_) {
    const auto number = static_cast<std::uint16_t>(own->number());
    const Action forward{0, number, ActionType::forward, false};
    if (compiled_.program.reads_message(forward)) {
      hidden = own->to_receive(/*in_validation=*/true);
      const Action coming = receive_of(forward);
      const PathScope scope("pipeline.validate." + print(coming));
      receive(hidden, edge(coming)).wait();
    }
    const Tensor& made = own->validate(batch, valid_tokens, hidden);
    if (own->has_head()) {
      loss = made;
      continue;
    }
    hidden = made;
    const Action message = send_of(forward);
    if (compiled_.program.peer_of(message) != compiled_.rank) sending.push_back(send(made, edge(message)));
  }
  for (Message& message : sending) message.wait();
  return loss.defined() ? loss : no_loss_;
}

std::optional<ReplayFacts> PipelineRunner::facts() const {
  if (!stages_.front()->is_replayed()) return std::nullopt;
  ReplayFacts facts;
  for (const auto& stage : stages_) stage->add_facts(facts, compiled_.program.microbatches);
  return facts;
}

}  // namespace rondo

// Runs a rank's actions. A message begins at its place in the program, and its reader waits for it,
// so a rank waits less than the proof of the program allows. A tensor from one stage of a rank to
// the next is copied like a message, since its slot may be reused before the last read. A forward
// and a backward that run together are one executor for each pair of slots in the program.
#include "trainer/step/pipeline_runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <set>

#include "compiler/bodies/merge.h"
#include "compiler/execute/run_observer.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;
using pipeline::Action;
using pipeline::ActionType;

}  // namespace

PipelineRunner::PipelineRunner(const CompiledPipeline& compiled, const TrainState& state,
                               const SharedResources& shared)
    : compiled_(compiled), no_loss_(at::zeros_like(state.tensor(kHalted))) {
  for (const CompiledStage& stage : compiled.stages)
    stages_.push_back(std::make_unique<PipelineStage>(stage, state, shared, compiled.program.microbatches));
  bind_pairs(shared);
}
PipelineRunner::~PipelineRunner() = default;

PipelineStage& PipelineRunner::stage(std::int64_t number) const {
  return *stages_[compiled_.index_of(number)];
}

void PipelineRunner::bind_pairs(const SharedResources& shared) {
  const std::vector<Action>& actions = compiled_.actions();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& forward = actions[i];
    if (!forward.with_next) continue;
    const Action& backward = actions[i + 1];
    const CompiledPair* pair = compiled_.pair(forward, backward);
    if (pair == nullptr) continue;
    std::unique_ptr<Executor>& bound = pairs_[in_slots(*pair, forward, backward)];
    if (bound) continue;
    std::vector<Tensor> state;
    for (StepInput input : pair->step.function().inputs) {
      if (input.kind == ir::InputKind::batch) continue;
      const Action* reader = &forward;  // any, for state without slots
      if (input.kind == ir::InputKind::saved) {
        const ir::NameInPair name = ir::read_name_in_pair(input.name);
        input.name = name.name;
        if (!name.of_forward) reader = &backward;
      }
      state.push_back(stage(reader->stage).state_tensor(input, reader->microbatch));
    }
    bound = pair->step.bind(std::move(state), shared);
  }
}

PipelineRunner::PairInSlots PipelineRunner::in_slots(const CompiledPair& pair, const Action& forward,
                                                     const Action& backward) const {
  return {&pair, stage(forward.stage).slot_number(forward.microbatch),
          stage(backward.stage).slot_number(backward.microbatch)};
}

Executor* PipelineRunner::executor(const Action& forward, const Action& backward) const {
  const CompiledPair* pair = compiled_.pair(forward, backward);
  return pair == nullptr ? nullptr : pairs_.at(in_slots(*pair, forward, backward)).get();
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
  const std::vector<Action>& actions = compiled_.actions();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const ObservedAction observed(
        [&] { return action.with_next ? print(action) + "+" + print(actions[i + 1]) : print(action); });
    if (!is_compute(action.type))
      play(action);
    else if (action.with_next)
      compute(action, actions[++i], batch);
    else
      compute(action, batch);
  }
  for (const auto& stage : stages_) stage->wait_for_sent();
}

void PipelineRunner::play(const Action& action) {
  const PathScope scope("pipeline." + print(action));  // names what a rank waits for
  const std::pair<std::int32_t, std::int32_t> place(action.stage, action.microbatch);
  const auto send_out = [&](const std::string& name) {
    PipelineStage& own = stage(action.stage);
    own.sending(name, action.microbatch) = send(own.sent(name, action.microbatch), edge(action));
  };
  const auto receive_in = [&](auto& received) {
    Received& incoming = received[place];
    incoming.tensor = stage(action.stage).to_receive(/*in_validation=*/false);
    incoming.message = receive(incoming.tensor, edge(action));
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
      return unshard_for({0, action.stage, ActionType::forward});
    case ActionType::reshard:
      return stage(action.stage).reshard();
    default:
      return;  // REDUCE_GRAD
  }
}

void PipelineRunner::unshard_for(const Action& next) {
  PipelineStage& own = stage(next.stage);
  if (!own.gathers_itself(body_of(next.type), next.microbatch)) own.unshard();
}

void PipelineRunner::compute(const Action& action, const StepBatch& batch) {
  unshard_for(action);  // while its inputs are in transfer
  stage(action.stage).run(body_of(action.type), action.microbatch, batch, streams_for(action));
  finish(action);
}

void PipelineRunner::compute(const Action& forward, const Action& backward, const StepBatch& batch) {
  Executor* both = executor(forward, backward);
  if (both == nullptr) {
    compute(forward, batch);
    compute(backward, batch);
    return;
  }
  for (const Action* action : {&forward, &backward}) stage(action->stage).unshard();
  std::vector<Tensor> inputs;
  for (const Action* action : {&forward, &backward}) {
    const std::vector<Tensor> own =
        stage(action->stage).prepare(body_of(action->type), action->microbatch, batch, streams_for(*action));
    inputs.insert(inputs.end(), own.begin(), own.end());
  }
  both->run(inputs);
  finish(forward);
  finish(backward);
}

Streams PipelineRunner::streams_for(const Action& compute) {
  const auto wait_for = [&](auto& received) -> Tensor {
    const auto match = received.find({compute.stage, compute.microbatch});
    if (match == received.end()) return {};
    const PathScope scope("pipeline." + print(compute));
    if (match->second.message) match->second.message->wait();
    return match->second.tensor;
  };
  return {wait_for(hidden_), wait_for(gradients_)};
}

void PipelineRunner::finish(const Action& compute) {
  // Copies a result to a neighbouring stage on this rank.
  const auto pass_on = [&](const std::string& name, auto& received, std::int32_t to) {
    if (to < 0 || to >= compiled_.program.stages) return;
    if (compiled_.program.rank_of_stage[static_cast<std::size_t>(to)] != compiled_.rank) return;
    received[{to, compute.microbatch}] = {stage(compute.stage).sent(name, compute.microbatch).clone(),
                                          std::nullopt};
  };
  if (compute.type == ActionType::forward) pass_on(kSentHidden, hidden_, compute.stage + 1);
  if (makes_input_gradient(compute.type)) pass_on(kSentGradient, gradients_, compute.stage - 1);
  if (!makes_weight_gradient(compute.type)) return;
  if (compute.microbatch + 1 == compiled_.program.microbatches) stage(compute.stage).reduce();
  hidden_.erase({compute.stage, compute.microbatch});
  gradients_.erase({compute.stage, compute.microbatch});
}

Tensor PipelineRunner::validate(const Batch& batch) {
  Tensor hidden, loss;
  std::vector<Message> sending;
  for (const auto& own : stages_) {
    const auto number = static_cast<std::uint16_t>(own->number());
    const Action forward{0, number, ActionType::forward, false};
    if (compiled_.program.reads_message(forward)) {
      hidden = own->to_receive(/*in_validation=*/true);
      const Action incoming = receive_of(forward);
      const PathScope scope("pipeline.validate." + print(incoming));
      receive(hidden, edge(incoming)).wait();
    }
    const Tensor& output = own->validate(batch, hidden);
    if (own->has_head()) {
      loss = output;
      continue;
    }
    hidden = output;
    const Action message = send_of(forward);
    if (compiled_.program.peer_of(message) != compiled_.rank) sending.push_back(send(output, edge(message)));
  }
  for (Message& message : sending) message.wait();
  return loss.defined() ? loss : no_loss_;
}

std::map<const Executor*, std::int64_t> PipelineRunner::runs_of_a_step() const {
  std::map<const Executor*, std::int64_t> runs;
  std::set<std::int64_t> gathered;  // stages
  const auto count_gathers = [&](const Action& action) {
    if (gathered.insert(action.stage).second) ++runs[stage(action.stage).executor(ir::Body::unshard, 0)];
  };
  const std::vector<Action>& actions = compiled_.actions();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (!is_compute(action.type)) continue;
    const PipelineStage& own = stage(action.stage);
    if (Executor* const both = action.with_next ? executor(action, actions[i + 1]) : nullptr) {
      count_gathers(action);
      count_gathers(actions[++i]);
      ++runs[both];
      continue;
    }
    Executor* const gathers = own.executor(ir::Body::unshard_forward, action.microbatch);
    if (gathers != nullptr && gathered.insert(action.stage).second) {  // the first action is a forward
      ++runs[gathers];
      continue;
    }
    count_gathers(action);
    ++runs[own.executor(body_of(action.type), action.microbatch)];
  }
  for (const auto& stage : stages_) ++runs[stage->reduce_executor()];
  runs.erase(nullptr);
  return runs;
}

}  // namespace rondo

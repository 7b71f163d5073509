#include "trainer/step/compiled_functions.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/bodies/merge.h"
#include "support/error.h"

namespace rondo {
namespace {

using pipeline::ActionType;

// The bodies that the actions of a stage run.
ir::CutOptions cut_of(const std::vector<pipeline::Action>& actions, std::int64_t stage,
                      const CompileOptions& options) {
  ir::CutOptions cut{.unshard = options.reshard_after_forward == ReshardAfterForward::never,
                     .whole_backward = false,
                     .divided_backward = false,
                     .recompute_pending = options.memory_policy != MemoryPolicy::none,
                     .input_gradient = "new." + kSentGradient};
  for (const pipeline::Action& action : actions) {
    if (action.stage != stage || !is_compute(action.type)) continue;
    cut.whole_backward = cut.whole_backward || action.type == ActionType::backward;
    cut.divided_backward = cut.divided_backward || action.type == ActionType::backward_weight;
  }
  return cut;
}

// Of all that stages receive, which has one type; 0 where they receive nothing.
std::int64_t received_bytes(const CompiledPipeline& pipeline) {
  for (const CompiledStage& stage : pipeline.stages)
    for (const CompiledBody& body : stage.bodies)
      for (const StepInput& input : body.step.function().inputs)
        if (is_received(input)) return pipeline.most_received() * ir::storage_bytes(input.type);
  return 0;
}

// Of what the step reads of a batch, without what it receives of another stage.
std::int64_t own_batch_bytes(const CompiledStep& step) {
  std::int64_t bytes = step.report().memory.input_bytes[static_cast<std::size_t>(ir::InputKind::batch)];
  for (const StepInput& input : step.function().inputs)
    if (is_received(input)) bytes -= ir::storage_bytes(input.type);
  return bytes;
}

Lasting lasting(const StepInput& saved) {
  return saved.name.starts_with(ir::kUnsharded) ? Lasting::step
         : saved.name.starts_with(ir::kPending) ? Lasting::pending
                                                : Lasting::microbatch;
}

// Slots for so many microbatches, and for so many pending ones, whose number divides that of the others, so
// that a slot has one of them for all microbatches that are in it: the fewest bytes.
void choose_slots(CompiledStage& stage, std::int32_t in_flight, std::int32_t pending) {
  stage.slots = in_flight;
  stage.pending_slots = std::max(1, pending);
  if (stage.slots % stage.pending_slots == 0) return;
  const std::int64_t of_microbatch = stage.saved_bytes(Lasting::microbatch),
                     of_pending = stage.saved_bytes(Lasting::pending);
  std::pair least(std::numeric_limits<std::int64_t>::max(), in_flight);
  for (std::int32_t count = pending; count <= in_flight; ++count) {
    const std::int32_t slots = (in_flight + count - 1) / count * count;
    const std::pair bytes(slots * of_microbatch + count * of_pending, slots);
    if (bytes >= least) continue;
    least = bytes;
    stage.slots = slots;
    stage.pending_slots = count;
  }
}

const ir::Graph* graph_of(const CutFunction& function, ir::Body body) {
  for (const ir::BodyGraph& one : function.bodies)
    if (one.body == body) return &one.graph;
  return nullptr;
}

}  // namespace

bool is_received(const StepInput& input) {
  return input.name.ends_with(kReceivedHidden) || input.name.ends_with(kReceivedGradient);
}

std::int64_t PlannedMemory::total_bytes() const {
  return std::accumulate(input_bytes.begin(), input_bytes.end(), arena_bytes);
}

PlannedMemory planned_memory(const CompiledFunctions& functions) {
  PlannedMemory memory;
  for (const CompiledStep* step : functions.all()) {
    const ir::MemoryReport& report = step->report().memory;
    for (std::size_t kind = 0; kind < memory.input_bytes.size(); ++kind)
      memory.input_bytes[kind] = std::max(memory.input_bytes[kind], report.input_bytes[kind]);
    if (!memory.report.graph.empty() && report.arena_bytes <= memory.arena_bytes) continue;
    memory.arena_bytes = report.arena_bytes;
    memory.report = report;
  }
  if (!functions.pipeline) return memory;
  std::int64_t& saved = memory.input_bytes[static_cast<std::size_t>(ir::InputKind::saved)] = 0;
  for (const CompiledStage& stage : functions.pipeline->stages)
    saved += stage.saved_bytes(Lasting::step) + stage.slots * stage.saved_bytes(Lasting::microbatch) +
             stage.pending_slots * stage.saved_bytes(Lasting::pending);
  std::int64_t& batch = memory.input_bytes[static_cast<std::size_t>(ir::InputKind::batch)] = 0;
  for (const CompiledStep* step : functions.all()) batch = std::max(batch, own_batch_bytes(*step));
  batch += received_bytes(*functions.pipeline);
  return memory;
}

ir::Body body_of(ActionType compute) {
  switch (compute) {
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

const CompiledStep* CompiledStage::body(ir::Body wanted) const {
  const auto found =
      std::find_if(bodies.begin(), bodies.end(), [&](const CompiledBody& one) { return one.body == wanted; });
  return found == bodies.end() ? nullptr : &found->step;
}

std::map<std::string, ir::TensorType> CompiledStage::saved(Lasting wanted) const {
  std::map<std::string, ir::TensorType> found;
  const auto add = [&](const CompiledStep& step) {
    for (const StepInput& input : step.function().inputs)
      if (input.kind == ir::InputKind::saved && lasting(input) == wanted)
        found.emplace(input.name, input.type);
  };
  for (const CompiledBody& one : bodies) add(one.step);
  if (accumulate) add(*accumulate);
  return found;
}

std::int64_t CompiledStage::saved_bytes(Lasting wanted) const {
  std::int64_t bytes = 0;
  for (const auto& [name, type] : saved(wanted)) bytes += ir::storage_bytes(type);
  return bytes;
}

std::vector<std::int64_t> PipelineSchedule::stages_of_rank() const {
  std::vector<std::int64_t> stages;
  for (std::int64_t stage = 0; stage < program.stages; ++stage)
    if (program.rank_of_stage[static_cast<std::size_t>(stage)] == rank) stages.push_back(stage);
  return stages;
}

void CompiledPipeline::place(const PipelineSchedule& schedule) {
  static_cast<PipelineSchedule&>(*this) = schedule;
  const std::vector<std::int64_t> own = stages_of_rank();
  RONDO_ASSERT(own.size() == stages.size(), "a rank has the stages that were compiled for it");
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto stage = static_cast<std::size_t>(own[i]);
    stages[i].stage = own[i];
    choose_slots(stages[i], proof.in_flight.of_stage[stage], proof.in_flight.pending_of_stage[stage]);
  }
}

// What comes of another rank is there from its RECV on, what a stage of this rank hands on from the action
// that makes it, and both until the gradients of the weights.
std::int64_t CompiledPipeline::most_received() const {
  const auto is_own = [&](std::int32_t stage) {
    return stage >= 0 && stage < program.stages &&
           program.rank_of_stage[static_cast<std::size_t>(stage)] == rank;
  };
  std::int64_t now = 0, most = 0;
  for (const pipeline::Action& action : actions()) {
    if (is_receive(action.type)) ++now;
    if (action.type == ActionType::forward && is_own(action.stage + 1)) ++now;
    if (makes_input_gradient(action.type) && is_own(action.stage - 1)) ++now;
    most = std::max(most, now);
    if (makes_weight_gradient(action.type))
      now -= (action.stage > 0 ? 1 : 0) + (action.stage + 1 < program.stages ? 1 : 0);
  }
  return most;
}

std::size_t CompiledPipeline::index_of(std::int64_t stage) const {
  const auto found = std::find_if(stages.begin(), stages.end(),
                                  [&](const CompiledStage& one) { return one.stage == stage; });
  RONDO_ASSERT(found != stages.end(), "a rank plays its own stages");
  return static_cast<std::size_t>(found - stages.begin());
}

const CompiledPair* CompiledPipeline::pair(const pipeline::Action& forward,
                                           const pipeline::Action& backward) const {
  for (const CompiledPair& pair : pairs)
    if (stages[pair.forward_stage].stage == forward.stage &&
        stages[pair.backward_stage].stage == backward.stage && pair.backward == body_of(backward.type))
      return &pair;
  return nullptr;
}

CompiledFunctions::CompiledFunctions(const PipelineFunctions& functions, const PipelineSchedule& schedule,
                                     const CompileRequest& request, bool with_validation) {
  CompiledPipeline& made = pipeline.emplace();
  const std::vector<pipeline::Action>& actions = schedule.actions();
  std::vector<CutFunction> cut;
  for (const StageFunctions& stage : functions.stages) {
    CompiledStage& compiled = made.stages.emplace_back();
    compiled.stage = stage.stage;
    compiled.embedding = stage.embedding;
    compiled.head = stage.head;
    compiled.eager = stage.eager;
    if (request.executor == ExecutorKind::eager)
      compiled.accumulate.emplace(stage.accumulate, request);
    else
      cut.push_back(cut_function(stage.accumulate, request, cut_of(actions, stage.stage, request.options)));
    if (with_validation) compiled.validate.emplace(stage.validate, request);
  }
  for (std::size_t i = 0; !cut.empty() && i < actions.size(); ++i) {
    if (!actions[i].with_next || made.pair(actions[i], actions[i + 1]) != nullptr) continue;
    const std::size_t forward = made.index_of(actions[i].stage),
                      backward = made.index_of(actions[i + 1].stage);
    const ir::Body body = body_of(actions[i + 1].type);
    const ir::Graph *first = graph_of(cut[forward], ir::Body::forward),
                    *second = graph_of(cut[backward], body);
    if (first != nullptr && second != nullptr)  // a stage without layers may have nothing to do
      made.pairs.push_back(
          {forward, backward, body, CompiledStep(ir::merge_bodies(*first, *second), request)});
  }
  for (std::size_t i = 0; i < cut.size(); ++i)
    for (ir::BodyGraph& body : cut[i].bodies)
      made.stages[i].bodies.push_back(
          {body.body, CompiledStep(std::move(body.graph), request, std::exchange(cut[i].report, {}))});
  made.place(schedule);
  update.emplace(functions.update, request);
  if (with_validation) validate.emplace(functions.validate, request);
}

CompiledFunctions::CompiledFunctions(const TrainStepFunctions& functions, const CompileRequest& request,
                                     bool with_validation) {
  if (functions.train_step.body) {
    train_step.emplace(functions.train_step, request);
  } else {
    accumulate.emplace(functions.accumulate, request);
    update.emplace(functions.update, request);
  }
  if (functions.repeat.body) {
    CompileRequest least_memory = request;
    least_memory.options.memory_policy = MemoryPolicy::full;
    least_memory.options.recompute_all_to_all = true;
    repeat.emplace(functions.repeat, least_memory);
  }
  if (with_validation) validate.emplace(functions.validate, request);
}

std::vector<const CompiledStep*> CompiledFunctions::all() const {
  std::vector<const CompiledStep*> present;
  const auto add = [&](const std::optional<CompiledStep>& step) {
    if (step) present.push_back(&*step);
  };
  add(train_step);
  add(accumulate);
  if (pipeline) {
    for (const CompiledStage& stage : pipeline->stages) {
      for (const CompiledBody& body : stage.bodies) present.push_back(&body.step);
      add(stage.accumulate);
      add(stage.validate);
    }
    for (const CompiledPair& pair : pipeline->pairs) present.push_back(&pair.step);
  }
  add(update);
  add(repeat);
  add(validate);
  return present;
}

bool CompiledFunctions::repeat_fits(std::int64_t bytes) const {
  return repeat->report().memory.arena_bytes <= forward_backward().report().memory.arena_bytes ||
         planned_memory(*this).total_bytes() <= bytes;
}

}  // namespace rondo

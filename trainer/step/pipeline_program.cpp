// Compiles the stages of a rank. Each traced stage is cut into the bodies that the schedule's
// actions run. A forward and a backward that the schedule runs together are merged into one
// function. The number of slots follows from the proof of the schedule: how many microbatches are
// in flight.
#include "trainer/step/pipeline_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/bodies/merge.h"
#include "compiler/passes/pipeline.h"
#include "compiler/trace/tracer.h"
#include "support/error.h"

namespace rondo {
namespace {

using pipeline::ActionType;

// Returns the cut into the bodies that the actions of a stage run. A stage with the embedding waits
// for no other stage while its weights are gathered, so its first forward gathers them.
ir::CutOptions cut_of(const std::vector<pipeline::Action>& actions, std::int64_t stage, bool embedding,
                      const CompileOptions& options) {
  const bool unshard = options.reshard_after_forward == ReshardAfterForward::never;
  ir::CutOptions cut{.unshard = unshard,
                     .unshard_forward = unshard && embedding,
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

Lifetime lifetime_of(const StepInput& saved) {
  return saved.name.starts_with(ir::kUnsharded) ? Lifetime::step
         : saved.name.starts_with(ir::kPending) ? Lifetime::pending
                                                : Lifetime::microbatch;
}

// Chooses the numbers of slots with the fewest bytes for `in_flight` microbatches, `pending` of
// them pending. The number of pending slots must divide the number of slots, so that each slot
// always has the same pending slot.
void choose_slots(CompiledStage& stage, std::int32_t in_flight, std::int32_t pending) {
  stage.slots = in_flight;
  stage.pending_slots = std::max(1, pending);
  if (stage.slots % stage.pending_slots == 0) return;
  const std::int64_t microbatch_bytes = stage.saved_bytes(Lifetime::microbatch),
                     pending_bytes = stage.saved_bytes(Lifetime::pending);
  std::pair least(std::numeric_limits<std::int64_t>::max(), in_flight);
  for (std::int32_t count = pending; count <= in_flight; ++count) {
    const std::int32_t slots = (in_flight + count - 1) / count * count;
    const std::pair bytes(slots * microbatch_bytes + count * pending_bytes, slots);
    if (bytes >= least) continue;
    least = bytes;
    stage.slots = slots;
    stage.pending_slots = count;
  }
}

// Returns the index of the action that adds the last microbatch to the gradient sums of a stage.
std::size_t last_addition(const std::vector<pipeline::Action>& actions, std::int64_t stage) {
  const auto last = std::find_if(actions.rbegin(), actions.rend(), [&](const pipeline::Action& action) {
    return action.stage == stage && makes_weight_gradient(action.type);
  });
  RONDO_ASSERT(last != actions.rend(), "a stage has a backward");
  return static_cast<std::size_t>(actions.rend() - last) - 1;
}

// Returns a backward of a stage with the reduction of its gradient sums.
ir::Graph reducing(const ir::Graph& backward, const StageFunctions& stage, const CompileRequest& request) {
  ir::Graph reduce = trace(*stage.reduce);
  ir::run_pipeline(reduce, request.options, {}, ir::PipelineHalf::before_cut, request.verify);
  ir::Graph graph = ir::chain_bodies(backward, reduce);
  graph.name = fmt::format("{}.{}", stage.accumulate.name, name_of(ir::Body::last_backward));
  return graph;
}

// Removes the forward that gathers weights if it needs more memory than every other body.
void keep_within_arena(CompiledStage& stage) {
  const auto arena = [](const CompiledBody& body) {
    return std::pair(body.step.report().memory.arena_bytes, body.body != ir::Body::unshard_forward);
  };
  const auto largest =
      std::max_element(stage.bodies.begin(), stage.bodies.end(),
                       [&](const CompiledBody& a, const CompiledBody& b) { return arena(a) < arena(b); });
  if (largest != stage.bodies.end() && largest->body == ir::Body::unshard_forward)
    stage.bodies.erase(largest);
}

const ir::Graph* graph_of(const CutFunction& function, ir::Body body) {
  for (const ir::BodyGraph& candidate : function.bodies)
    if (candidate.body == body) return &candidate.graph;
  return nullptr;
}

}  // namespace

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
  const auto match = std::find_if(bodies.begin(), bodies.end(),
                                  [&](const CompiledBody& compiled) { return compiled.body == wanted; });
  return match == bodies.end() ? nullptr : &match->step;
}

std::map<std::string, ir::TensorType> CompiledStage::saved(Lifetime wanted) const {
  std::map<std::string, ir::TensorType> types;
  const auto add = [&](const CompiledStep& step) {
    for (const StepInput& input : step.function().inputs)
      if (input.kind == ir::InputKind::saved && lifetime_of(input) == wanted)
        types.emplace(input.name, input.type);
  };
  for (const CompiledBody& body : bodies) add(body.step);
  if (accumulate) add(*accumulate);
  return types;
}

std::int64_t CompiledStage::saved_bytes(Lifetime wanted) const {
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
  RONDO_ASSERT(own.size() == stages.size(), "the rank has the compiled stages");
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto stage = static_cast<std::size_t>(own[i]);
    stages[i].stage = own[i];
    choose_slots(stages[i], proof.in_flight.of_stage[stage], proof.in_flight.pending_of_stage[stage]);
  }
}

std::int64_t CompiledPipeline::saved_bytes() const {
  std::int64_t bytes = 0;
  for (const CompiledStage& stage : stages)
    bytes += stage.saved_bytes(Lifetime::step) + stage.slots * stage.saved_bytes(Lifetime::microbatch) +
             stage.pending_slots * stage.saved_bytes(Lifetime::pending);
  return bytes;
}

// All received tensors have one type. A tensor from another rank exists from its RECV on, a tensor
// from a stage of this rank from the action that computes it. Both exist until the weight gradients
// of the microbatch.
std::int64_t CompiledPipeline::received_bytes() const {
  std::int64_t bytes_each = 0;
  for (const CompiledStage& stage : stages)
    for (const CompiledBody& body : stage.bodies)
      for (const StepInput& input : body.step.function().inputs)
        if (is_received(input)) bytes_each = ir::storage_bytes(input.type);

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
  return most * bytes_each;
}

std::size_t CompiledPipeline::index_of(std::int64_t stage) const {
  const auto match = std::find_if(stages.begin(), stages.end(),
                                  [&](const CompiledStage& compiled) { return compiled.stage == stage; });
  RONDO_ASSERT(match != stages.end(), "a rank runs its own stages");
  return static_cast<std::size_t>(match - stages.begin());
}

const CompiledPair* CompiledPipeline::pair(const pipeline::Action& forward,
                                           const pipeline::Action& backward) const {
  for (const CompiledPair& pair : pairs)
    if (stages[pair.forward_stage].stage == forward.stage &&
        stages[pair.backward_stage].stage == backward.stage && pair.backward == body_of(backward.type))
      return &pair;
  return nullptr;
}

std::vector<const CompiledStep*> CompiledPipeline::functions() const {
  std::vector<const CompiledStep*> functions;
  for (const CompiledStage& stage : stages) {
    for (const CompiledBody& body : stage.bodies) functions.push_back(&body.step);
    if (stage.accumulate) functions.push_back(&*stage.accumulate);
    if (stage.reduce) functions.push_back(&*stage.reduce);
    if (stage.validate) functions.push_back(&*stage.validate);
  }
  for (const CompiledPair& pair : pairs) functions.push_back(&pair.step);
  return functions;
}

CompiledPipeline compile_pipeline(const std::vector<StageFunctions>& stages, const PipelineSchedule& schedule,
                                  const CompileRequest& request, bool with_validation) {
  CompiledPipeline pipeline;
  const std::vector<pipeline::Action>& actions = schedule.actions();
  std::vector<CutFunction> cut;
  for (const StageFunctions& stage : stages) {
    CompiledStage& compiled = pipeline.stages.emplace_back();
    compiled.stage = stage.stage;
    compiled.embedding = stage.embedding;
    compiled.head = stage.head;
    compiled.eager = stage.eager;
    if (request.executor == ExecutorKind::eager)
      compiled.accumulate.emplace(stage.accumulate, request);
    else
      cut.push_back(cut_function(stage.accumulate, request,
                                 cut_of(actions, stage.stage, stage.embedding, request.options)));
    if (with_validation) compiled.validate.emplace(stage.validate, request);
  }
  for (std::size_t i = 0; !cut.empty() && i < actions.size(); ++i) {
    if (!actions[i].with_next || pipeline.pair(actions[i], actions[i + 1]) != nullptr) continue;
    const std::size_t forward = pipeline.index_of(actions[i].stage),
                      backward = pipeline.index_of(actions[i + 1].stage);
    const ir::Body body = body_of(actions[i + 1].type);
    const ir::Graph *first = graph_of(cut[forward], ir::Body::forward),
                    *second = graph_of(cut[backward], body);
    if (first != nullptr && second != nullptr)  // a stage without layers may have empty bodies
      pipeline.pairs.push_back(
          {forward, backward, body, CompiledStep(ir::merge_bodies(*first, *second), request)});
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (!stages[i].reduce) continue;
    const std::size_t last = last_addition(actions, stages[i].stage);
    const bool is_of_pair = last > 0 && actions[last - 1].with_next;
    CompiledStage& compiled = pipeline.stages[i];
    compiled.last = body_of(actions[last].type);
    const ir::Graph* const graph = cut.empty() ? nullptr : graph_of(cut[i], compiled.last);
    if (graph == nullptr || is_of_pair)
      compiled.reduce.emplace(*stages[i].reduce, request);
    else
      cut[i].bodies.push_back({ir::Body::last_backward, reducing(*graph, stages[i], request)});
  }
  for (std::size_t i = 0; i < cut.size(); ++i) {
    for (ir::BodyGraph& body : cut[i].bodies)
      pipeline.stages[i].bodies.push_back(
          {body.body, CompiledStep(std::move(body.graph), request, std::exchange(cut[i].report, {}))});
    keep_within_arena(pipeline.stages[i]);
  }
  pipeline.place(schedule);
  return pipeline;
}

}  // namespace rondo

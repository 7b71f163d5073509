// Stages are of one kind if their parameters have the same sizes in the same order and their
// forwards have the same arithmetic. Their functions then differ only in names. So of 1,024 ranks
// mostly three are compiled: the first, a middle one and the last. Slots, and so the memory, differ
// from rank to rank.
//
// A stage that runs both whole and split backwards has bodies for both. Its times are those of the
// split bodies, since the simulator takes a whole backward as the sum of its parts.
#include "plan/pipeline_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "parallel/pipeline/picture.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

using pipeline::ActionType;

// Determines the functions of a stage except for names: parameters, floating-point operations,
// ends, and the bodies it runs.
using StageKind =
    std::tuple<std::vector<std::vector<std::int64_t>>, std::int64_t, bool, bool, std::set<ActionType>>;

StageKind kind_of(const StagePart& part, const Decoder& model, std::int64_t seq_len,
                  const std::set<ActionType>& actions) {
  const std::shared_ptr<const Decoder> stage = model.stage(part);
  std::vector<std::vector<std::int64_t>> sizes;
  for (const ParameterRule& rule : stage->parameters()) sizes.push_back(rule.sizes);
  return {sizes, stage->flops_per_token(seq_len), part.embedding, part.head, actions};
}

// Two stages of a rank: the forward of one and the backward of the other run together.
using StagePair = std::tuple<std::size_t, std::size_t, ActionType>;

struct StageEstimate {
  ir::StepEstimate unshard, forward, backward_input, backward_weight;
  ir::StepEstimate reduce;  // what the last backward takes longer, or the reduction behind it
};
StageEstimate estimate_of(const CompiledStage& stage, const EstimateStep& estimate) {
  const auto of = [&](ir::Body body) {
    const CompiledStep* step = stage.body(body);
    return step != nullptr ? estimate(*step) : ir::StepEstimate{};
  };
  ir::StepEstimate unshard = of(ir::Body::unshard);
  if (stage.body(ir::Body::unshard_forward) != nullptr) {  // what the first forward takes longer
    unshard = of(ir::Body::unshard_forward);
    unshard.add(of(ir::Body::forward), -1);
  }
  const bool divided = stage.body(ir::Body::backward_weight) != nullptr;
  ir::StepEstimate reduce = stage.reduce ? estimate(*stage.reduce) : ir::StepEstimate{};
  if (stage.body(ir::Body::last_backward) != nullptr) {
    reduce = of(ir::Body::last_backward);
    reduce.add(of(stage.last), -1);
  }
  if (!divided) return {unshard, of(ir::Body::forward), of(ir::Body::backward), {}, reduce};
  return {unshard, of(ir::Body::forward), of(ir::Body::backward_input), of(ir::Body::backward_weight),
          reduce};
}

// Returns how often a step runs each pair.
std::vector<std::int64_t> pair_runs(const CompiledPipeline& pipeline) {
  std::vector<std::int64_t> runs(pipeline.pairs.size());
  const std::vector<pipeline::Action>& actions = pipeline.actions();
  for (std::size_t i = 0; !runs.empty() && i < actions.size(); ++i)
    if (actions[i].with_next)
      if (const CompiledPair* pair = pipeline.pair(actions[i], actions[i + 1]))
        ++runs[static_cast<std::size_t>(pair - pipeline.pairs.data())];
  return runs;
}

std::int64_t message_bytes(const StepProgram& functions) {
  for (const CompiledStage& stage : functions.pipeline->stages)
    for (const auto& [name, type] : stage.saved(Lifetime::microbatch))
      if (name == kSentHidden || name == kSentGradient) return ir::storage_bytes(type);
  return 0;
}

void plan_limits(PipelineRanks& ranks, PipelinePlan& plan) {
  for (std::int64_t most = plan.most_pending() / 2; most > 0; most /= 2) {
    ranks.limit_pending(most);
    PendingLimit& limit = plan.limits.emplace_back();
    limit.most = most;
    for (std::int64_t rank = 0; rank < ranks.count(); ++rank)
      limit.bytes = std::max(limit.bytes, planned_memory(ranks.of(rank)).total_bytes());
    limit.step_s = pipeline::simulate(ranks.layout().program, plan.times, false).end + plan.update_s;
  }
  ranks.limit_pending(std::nullopt);
}

}  // namespace

PipelineRanks::PipelineRanks(const JobConfig& config, const Layout& layout, std::int64_t place,
                             const std::shared_ptr<const Decoder>& model, const CompileRequest& request)
    : config_(config), mesh_layout_(layout), layout_(*pipeline_layout(config, layout)) {
  std::vector<std::set<ActionType>> actions(layout_.stages.size());
  for (const auto& program : layout_.program.ranks)
    for (const pipeline::Action& action : program)
      if (is_compute(action.type)) actions[action.stage].insert(action.type);
  const std::vector<std::int64_t> ranks = layout.mesh.members(place, Axis::pp);
  std::vector<std::pair<std::vector<StageKind>, std::set<StagePair>>> kinds;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::pair<std::vector<StageKind>, std::set<StagePair>> own;
    std::vector<std::size_t> place_of(layout_.stages.size());
    for (std::size_t stage = 0; stage < layout_.stages.size(); ++stage) {
      if (layout_.program.rank_of_stage[stage] != static_cast<std::int32_t>(rank)) continue;
      place_of[stage] = own.first.size();
      own.first.push_back(kind_of(layout_.stages[stage], *model, config.training.seq_len, actions[stage]));
    }
    const std::vector<pipeline::Action>& program = layout_.program.ranks[rank];
    for (std::size_t i = 0; i < program.size(); ++i)
      if (program[i].with_next)
        own.second.emplace(place_of[program[i].stage], place_of[program[i + 1].stage], program[i + 1].type);
    kind_of_.push_back(static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), own) - kinds.begin()));
    if (kind_of_.back() < kinds.size()) continue;
    kinds.push_back(std::move(own));
    kinds_.push_back(compile_step(config, layout, layout_, ranks[rank], model, request));
  }
}

void PipelineRanks::limit_pending(std::optional<std::int64_t> most) {
  JobConfig limited = config_;
  if (most) limited.parallelism.pipeline_parallel_max_pending_weight_gradients = most;
  layout_ = *pipeline_layout(limited, mesh_layout_);
}

const StepProgram& PipelineRanks::of(std::int64_t rank) {
  StepProgram& functions = kinds_[kind_of_[static_cast<std::size_t>(rank)]];
  functions.pipeline->place({layout_.program, layout_.proof, rank});
  return functions;
}

PipelinePlan plan_pipeline(
    PipelineRanks& ranks, const std::string& schedule, const EstimateStep& estimate,
    const std::function<double(double bytes, std::int64_t from, std::int64_t to)>& message_s) {
  PipelinePlan plan;
  plan.schedule = schedule;
  plan.layout = ranks.layout();
  const pipeline::Program& program = plan.layout.program;
  struct KindEstimate {
    std::vector<StageEstimate> stages;
    std::vector<ir::StepEstimate> pairs;
    ir::StepEstimate update;
  };
  std::map<const StepProgram*, KindEstimate> kinds;
  plan.times.stages.resize(plan.layout.stages.size());
  plan.pending_bytes.resize(plan.layout.stages.size());
  for (std::int64_t rank = 0; rank < ranks.count(); ++rank) {
    const StepProgram& functions = ranks.of(rank);
    const auto [entry, is_new] = kinds.try_emplace(&functions);
    KindEstimate& kind = entry->second;
    if (is_new) {
      for (const CompiledStage& stage : functions.pipeline->stages)
        kind.stages.push_back(estimate_of(stage, estimate));
      for (const CompiledPair& pair : functions.pipeline->pairs) kind.pairs.push_back(estimate(pair.step));
      kind.update = estimate(functions.at("update"));
      for (const StageEstimate& stage : kind.stages) kind.update.add(stage.reduce, 1);
      plan.message_bytes = message_bytes(functions);
    }
    ir::StepEstimate& computes = plan.computes.emplace_back();
    const std::vector<CompiledPair>& pairs = functions.pipeline->pairs;
    const std::vector<std::int64_t> runs_of_pairs = pair_runs(*functions.pipeline);
    for (std::size_t i = 0; i < kind.stages.size(); ++i) {
      const auto& [unshard, forward, backward_input, backward_weight, reduce] = kind.stages[i];
      plan.times.stages[static_cast<std::size_t>(functions.pipeline->stages[i].stage)] = {
          .forward = forward.step_s,
          .backward_input = backward_input.step_s,
          .backward_weight = backward_weight.step_s,
          .unshard = unshard.step_s};
      plan.pending_bytes[static_cast<std::size_t>(functions.pipeline->stages[i].stage)] =
          functions.pipeline->stages[i].saved_bytes(Lifetime::pending);
      computes.add(unshard, 1);
      std::int64_t forwards = program.microbatches, inputs = forwards, weights = forwards;  // unpaired
      for (std::size_t k = 0; k < pairs.size(); ++k) {
        if (pairs[k].forward_stage == i) forwards -= runs_of_pairs[k];
        if (pairs[k].backward_stage != i) continue;
        inputs -= runs_of_pairs[k];
        if (pairs[k].backward == ir::Body::backward) weights -= runs_of_pairs[k];
      }
      computes.add(forward, static_cast<double>(forwards));
      computes.add(backward_input, static_cast<double>(inputs));
      computes.add(backward_weight, static_cast<double>(weights));
    }
    for (std::size_t k = 0; k < kind.pairs.size(); ++k) {
      computes.add(kind.pairs[k], static_cast<double>(runs_of_pairs[k]));
      const auto stage = [&](std::size_t index) {
        return static_cast<std::int32_t>(functions.pipeline->stages[index].stage);
      };
      plan.times.pairs[{stage(pairs[k].forward_stage), stage(pairs[k].backward_stage)}] =
          kind.pairs[k].step_s;
    }
    computes.add(kind.update, 1);
    plan.update_s = std::max(plan.update_s, kind.update.step_s);
    plan.bytes.push_back(planned_memory(functions).total_bytes());
  }
  plan.times.messages.clear();
  for (std::size_t stage = 0; stage + 1 < plan.layout.stages.size(); ++stage) {
    const std::int32_t from = program.rank_of_stage[stage], to = program.rank_of_stage[stage + 1];
    plan.times.messages.push_back(from == to ? 0
                                             : message_s(static_cast<double>(plan.message_bytes), from, to));
  }
  const bool is_small = program.action_count() <= pipeline::kMaxDrawn;
  plan.timeline = pipeline::simulate(program, plan.times, is_small);
  if (is_small) plan_limits(ranks, plan);
  return plan;
}

std::int32_t PipelinePlan::most_pending() const {
  const std::vector<std::int32_t>& of_stage = layout.proof.in_flight.pending_of_stage;
  return *std::max_element(of_stage.begin(), of_stage.end());
}

std::int64_t PipelinePlan::limit_within(std::int64_t most_bytes) const {
  const auto limit = std::find_if(limits.begin(), limits.end(),
                                  [&](const PendingLimit& l) { return l.bytes <= most_bytes; });
  return limit == limits.end() ? 0 : limit->most;
}

double PipelinePlan::bubble_share() const {
  double waits = 0;
  for (std::size_t rank = 0; rank < computes.size(); ++rank) waits += bubble_s(rank);
  return waits / (step_s() * static_cast<double>(computes.size()));
}

std::size_t PipelinePlan::fullest() const {
  return static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

std::size_t PipelinePlan::busiest() const {
  const auto shorter = [](const ir::StepEstimate& a, const ir::StepEstimate& b) {
    return a.step_s < b.step_s;
  };
  return static_cast<std::size_t>(std::max_element(computes.begin(), computes.end(), shorter) -
                                  computes.begin());
}

std::vector<pipeline::StageLayers> PipelinePlan::layers() const {
  std::vector<pipeline::StageLayers> layers;
  for (const StagePart& stage : layout.stages)
    layers.push_back({stage.embedding, stage.head, static_cast<std::int32_t>(stage.layers), 0});
  return layers;
}

std::string PipelinePlan::even_layout() const {
  const auto seconds = [&](std::size_t stage) {
    const pipeline::StageTimes& stage_times = times.stages[stage];
    return stage_times.forward + stage_times.backward_input + stage_times.backward_weight;
  };
  double of_layers_s = 0;
  std::int64_t layers_alone = 0, layers = 0;
  for (std::size_t i = 0; i < layout.stages.size(); ++i) {
    const StagePart& stage = layout.stages[i];
    layers += stage.layers;
    if (stage.embedding || stage.head) continue;
    layers_alone += stage.layers;
    of_layers_s += seconds(i);
  }
  if (layers_alone == 0) return "";
  const auto in_layers = [&](std::size_t stage) {
    const double total = seconds(stage) * static_cast<double>(layers_alone) / of_layers_s;
    return std::max(0.0, total - static_cast<double>(layout.stages[stage].layers));
  };
  const pipeline::EndCosts ends{in_layers(0), in_layers(layout.stages.size() - 1)};
  return print_layout(pipeline::split_layers(static_cast<std::int32_t>(layers),
                                             static_cast<std::int32_t>(layout.stages.size()), ends));
}

}  // namespace rondo

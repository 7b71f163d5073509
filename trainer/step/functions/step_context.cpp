// Builds the context of a model, or of stages of it. Optimizer groups and inputs follow from the
// table of parameters and from the places of their shards.
#include "trainer/step/functions/step_context.h"

#include <algorithm>
#include <map>

#include "models/parts/initialize.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

// Tensor parallelism does not split norms, so their shards lie over other ranks than those of
// matrices, in collectives of a few KiB that take latency alone. One collective has those of all
// layers, unless gradients of a layer are updated as soon as they are reduced.
std::string bucket_of(const ParameterRule& rule, const TrainStepOptions& options) {
  const bool is_small = rule.sizes.size() == 1 && rule.style == ParallelStyle::replicated &&
                        options.mesh.degree(Axis::tp) > 1 && !options.early_step_in_backward;
  const std::string bucket = is_small ? "vectors" : rule.bucket;
  return options.bucket ? options.bucket(rule.name, bucket) : bucket;
}

// Returns the group of a parameter, still without it.
UpdateGroup group_of_one(const ParameterRule& rule, const ShardPlacement& placement,
                         const TrainStepOptions& options) {
  UpdateGroup group;
  group.update = options.update_of ? options.update_of(rule.name)
                                   : ParameterUpdate{options.optimizer, /*lr_factor=*/1, options.muon};
  if (options.early_step_in_backward || options.state_on_host) group.bucket = bucket_of(rule, options);
  if (!rule.is_hidden_matrix()) group.update.muon.reset();
  if (!group.update.muon) return group;
  group.pieces = matrix_pieces_of(rule, placement, options.mesh);
  const auto [rows, columns] = std::pair(group.pieces.rows, group.pieces.columns);
  group.scale = rule.inputs_first ? scale_of_muon(*group.update.muon, columns, rows)
                                  : scale_of_muon(*group.update.muon, rows, columns);
  return group;
}

// Returns the groups of parameters that are updated together, in the order of their first
// parameters.
std::vector<UpdateGroup> update_groups(const std::vector<ParameterRule>& rules,
                                       const std::vector<ShardPlacement>& placements,
                                       const TrainStepOptions& options) {
  std::vector<UpdateGroup> groups;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const UpdateGroup alone = group_of_one(rules[i], placements[i], options);
    const auto alike = std::find_if(groups.begin(), groups.end(),
                                    [&](const UpdateGroup& group) { return group.takes(alone); });
    UpdateGroup& group = alike == groups.end() ? groups.emplace_back(alone) : *alike;
    group.parameters.push_back(i);
    if (!options.rounding_seed) continue;
    const FlatShard& shard = placements[i].shard;
    const PartPlace place = shard.part_place();
    group.rounding.insert(group.rounding.end(), {rounding_stream(*options.rounding_seed, rules[i].name),
                                                 place.first, place.row, place.pitch, shard.begin()});
  }
  return groups;
}

ModelInputs model_inputs(const Decoder& whole, const StepContext& step) {
  const TrainStepOptions& options = step.options;
  ModelInputs inputs{.mesh = step.sharding.mesh(), .parameters = {}, .constants = {}, .expert_biases = {}};
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const ParameterRule& rule = step.parameters[i];
    inputs.parameters.push_back(
        {rule.name, ir::InputKind::parameter,
         ir::contiguous(to_ir(options.state_dtype), {step.placements[i].shard.stored()}),
         bucket_of(rule, options), step.sharding.of_parameter(rule)});
  }
  for (const Buffer& buffer : whole.buffers(1)) {
    ir::TensorType type = type_of(buffer.value);
    type.sizes[0] = table_length(options);  // tables are [T, ...], contiguous
    type.dtype = step.dtype_of_sums();
    inputs.constants.push_back({buffer.name, ir::InputKind::buffer, type, {}});
  }
  for (const ExpertBias& bias : step.expert_biases)
    inputs.expert_biases.push_back(
        {bias.name, ir::InputKind::buffer, ir::contiguous(ir::DType::f32, {bias.experts}), {}});
  return inputs;
}

// Returns the places of the entries of some parts among those of the whole model, by their names.
template <class Things, class Name>
Runs runs_of(const Things& all, const Things& some, Name name) {
  Runs runs(std::ssize(all));
  std::map<std::string, std::int64_t> places;
  for (std::int64_t i = 0; i < std::ssize(all); ++i) places[name(all[static_cast<std::size_t>(i)])] = i;
  for (const auto& entry : some) runs.add(places.at(name(entry)));
  return runs;
}

}  // namespace

ir::DType StepContext::dtype_of_sums() const { return to_ir(sum_dtype(options.state_dtype)); }

bool StepContext::reduces_sums() const {
  const auto is_sharded = [](const ShardPlacement& place) { return place.shards.ranks > 1; };
  return options.sharding.fsdp.replicas.ranks > 1 ||
         (has_whole_sums() && std::any_of(placements.begin(), placements.end(), is_sharded));
}

StepContextPtr make_step_context(const std::shared_ptr<const Decoder>& whole, const Decoders& parts,
                                 const StageEnds& ends, const TrainStepOptions& options) {
  const auto context =
      std::make_shared<StepContext>(StepContext{.model = parts.size() == 1 ? parts[0] : whole,
                                                .options = options,
                                                .stage = ends.name,
                                                .embedding = ends.embedding,
                                                .head = ends.head,
                                                .parameters = {},
                                                .placements = {},
                                                .expert_biases = {},
                                                .parameter_runs = Runs(),
                                                .router_runs = Runs(),
                                                .update_groups = {},
                                                .sharding = InputSharding(options.mesh),
                                                .inputs = {}});
  StepContext& step = *context;
  std::vector<std::string> routers;
  for (const auto& part : parts) {
    const std::vector<std::string> more = part->routers();
    routers.insert(routers.end(), more.begin(), more.end());
    const auto& rules = part->parameters();
    step.parameters.insert(step.parameters.end(), rules.begin(), rules.end());
    const std::vector<ExpertBias> biases = part->expert_biases();
    step.expert_biases.insert(step.expert_biases.end(), biases.begin(), biases.end());
  }
  for (const ParameterRule& rule : step.parameters)
    step.placements.push_back(shard_placement_of(rule, options.mesh, options.rank));
  step.parameter_runs =
      runs_of(whole->parameters(), step.parameters, [](const ParameterRule& rule) { return rule.name; });
  step.router_runs = runs_of(whole->routers(), routers, [](const std::string& name) { return name; });
  step.update_groups = update_groups(step.parameters, step.placements, options);
  step.inputs = model_inputs(*whole, step);
  return context;
}

TrainStepOptions without_replica_sums(TrainStepOptions options) {
  options.sharding.fsdp.replicas = {};
  return options;
}

TrainStepOptions with_room_for_all_tokens(TrainStepOptions options) {
  options.sharding.experts.capacity_factor = 0;
  return options;
}

}  // namespace rondo

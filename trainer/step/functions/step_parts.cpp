// Builds the shared parts of step functions. Bodies read inputs at the positions of the signature.
// They capture shared, constant data only, since a trace and every eager run call them. Shards are
// detached first, so a gradient ends at the shard.
#include "trainer/step/functions/step_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

#include "datasets/loader.h"
#include "models/parts/initialize.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {

using at::Tensor;

void append(Tensors& to, const Tensors& from) { to.insert(to.end(), from.begin(), from.end()); }

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

// Returns the groups of parameters that are updated together, in the order of their first
// parameters.
std::vector<UpdateGroup> update_groups(const std::vector<ParameterRule>& rules,
                                       const std::vector<ShardPlacement>& placements,
                                       const TrainStepOptions& options) {
  std::vector<UpdateGroup> groups;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const ParameterUpdate update =
        options.update_of ? options.update_of(rules[i].name) : ParameterUpdate{options.optimizer};
    const bool by_bucket = options.early_step_in_backward || options.state_on_host;
    const std::string bucket = by_bucket ? bucket_of(rules[i], options) : "";
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const UpdateGroup& group) {
      return group.update == update && group.bucket == bucket;
    });
    UpdateGroup& group =
        alike == groups.end() ? groups.emplace_back(UpdateGroup{update, {}, {}, bucket}) : *alike;
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
    type.dtype = step.sums();
    inputs.constants.push_back({buffer.name, ir::InputKind::buffer, type, {}});
  }
  for (const ExpertBias& bias : step.expert_biases)
    inputs.expert_biases.push_back(
        {bias.name, ir::InputKind::buffer, ir::contiguous(ir::DType::f32, {bias.experts}), {}});
  return inputs;
}

RankContext ranks_over(const StepContext& step, const Tensors& shards, const Tensors& sums = {},
                       bool completes_sums = false) {
  ShardedParameters by_name;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const ShardPlacement& place = step.placements[i];
    const std::string& name = step.parameters[i].name;
    std::optional<GradientSum> sum;
    if (!sums.empty()) sum = {sums[i], step.has_whole_sums(), completes_sums};
    by_name[name] = {.shard = shards[i],
                     .sizes = place.shard.part_sizes(),
                     .shards = place.shards,
                     .sum = std::move(sum),
                     .float8 = step.options.float8 ? step.options.float8(name) : std::nullopt};
  }
  return rank_context(std::move(by_name), step.options.sharding);
}

ForwardInputs forward_inputs(const StepContext& step, const BatchInputs& at_input, const Tensors& inputs) {
  ForwardInputs forward{.rows = at_input.rows,
                        .length = at_input.length,
                        .buffers = at_input.buffers.of(inputs),
                        .checkpoint = step.options.checkpoint,
                        .expert_biases = at_input.expert_biases.of(inputs),
                        .context_ranks = step.options.mesh.degree(Axis::cp)};
  if (step.embedding)
    forward.tokens_BT = inputs[at_input.tokens];
  else
    forward.hidden_ND = inputs[at_input.hidden];
  if (step.options.has_positions()) forward.positions_BT = inputs[at_input.positions];
  if (step.options.divides_queries()) forward.query_positions_BT = inputs[at_input.query_positions];
  if (step.options.divides_keys()) forward.key_positions_BS = inputs[at_input.key_positions];
  if (step.options.document_attention) forward.document_borders_N = inputs[at_input.borders];
  return forward;
}

// Chooses how many of `all` rows a loss computes at a time; 0: all at once. `note` gives the reason
// if the options request chunks.
std::int64_t choose_loss_rows(const StepContext& step, std::int64_t all, std::string& note) {
  const TrainStepOptions& o = step.options;
  if (!step.head || !o.loss_chunks || all == 0) return 0;
  const std::int64_t vocabulary = step.model->vocabulary(), shards = o.mesh.degree(Axis::tp);
  if (o.float8 && o.float8("output.weight")) {
    note =
        "a loss is left whole: its logits are a product of float8; quantize.linear.float8.filter_fqns = "
        "[\"output\"] leaves the head out";
    return 0;
  }
  if (vocabulary % shards != 0) {
    note = "a loss is left whole: its vocabulary is padded";
    return 0;
  }
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
  const auto in_parts = [](std::int64_t whole, std::int64_t parts) { return (whole + parts - 1) / parts; };
  const auto element = static_cast<std::int64_t>(c10::elementSize(o.sharding.fsdp.compute_dtype));
  const std::int64_t bytes = all * (vocabulary / shards) * element;
  const std::int64_t rows = in_parts(all, *o.loss_chunks > 0 ? *o.loss_chunks : in_parts(bytes, kMaxBytes));
  note = fmt::format("logits of {} of {} rows at a time", rows, all);
  return rows;
}

// Returns the valid tokens of all batches of the step, in the dtype of the loss.
Tensor all_valid(const Mesh& mesh, const Tensor& valid_tokens, at::ScalarType dtype) {
  return sum_over_ranks(mesh, kTokenAxes, valid_tokens).to(dtype);
}

// Returns the sum over the labels of this rank's batch. With `valid_tokens`, divides it by the
// valid tokens of all batches of the step.
Tensor loss_of(const StepContext& step, const RankContext& ranks, const Tensor& logits_BTV,
               const Tensor& labels_BT, const Tensor& valid_tokens) {
  ModuleScope scope("loss");
  const Tensor logits = logits_BTV.view({-1, logits_BTV.size(-1)});
  const Tensor labels = labels_BT.view({-1});
  const Tensor sum = ranks.tensor->cross_entropy(logits, labels, step.model->vocabulary(), kIgnoreLabel);
  if (!valid_tokens.defined()) return sum;
  return sum / all_valid(step.options.mesh, valid_tokens, sum.scalar_type());
}

// Returns a head that computes the same from hidden states, `rows` rows at a time. It runs in the
// scope of the head. A sum has no gradients.
decltype(ForwardInputs::head) loss_in_chunks(const StepContext& step, const RankContext& ranks,
                                             const Tensor& labels_BT, const Tensor& valid_tokens,
                                             std::int64_t rows) {
  // Between the forward and the backward of a stage, gradients of the head would be kept for each
  // microbatch in flight.
  const HeadGradients gradients = step.stage.empty() ? HeadGradients::in_forward : HeadGradients::in_backward;
  return [mesh = step.options.mesh, layers = ranks.tensor, labels = labels_BT.view({-1}), valid_tokens, rows,
          gradients](const Tensor& h_TD, const Tensor& weight_VD) {
    Tensor valid, gradient;
    if (valid_tokens.defined()) {
      const PathScope scope("loss");
      valid = all_valid(mesh, valid_tokens, sum_dtype(h_TD));
      gradient = at::ones_like(valid) / valid;  // of a sum that is divided by `valid`
    }
    const Tensor sum =
        layers->linear_cross_entropy(h_TD, weight_VD, labels, gradient, kIgnoreLabel, rows, gradients);
    const PathScope scope("loss");
    return valid.defined() ? sum / valid : sum;
  };
}

Tensor loss_or_hidden(const StepContext& step, const RankContext& ranks, ForwardInputs& forward,
                      const BatchInputs& at_input, const Tensors& inputs) {
  const Tensor valid_tokens =
      step.head && at_input.loss == LossOf::step ? inputs[at_input.valid_tokens] : Tensor();
  if (at_input.loss_rows > 0)
    forward.head = loss_in_chunks(step, ranks, inputs[at_input.labels], valid_tokens, at_input.loss_rows);
  const Tensor made = step.model->forward(ranks, forward);
  if (forward.head) return made;
  if (step.head) return loss_of(step, ranks, made, inputs[at_input.labels], valid_tokens);
  // A stage without layers must return a tensor other than its input.
  return step.parameters.empty() ? made.clone() : made;
}

// Counts the sequences of all ranks and all microbatches.
std::int64_t sequences_of_a_step(const TrainStepOptions& options) {
  return options.local_batch_size * options.mesh.degree(kDataAxes) * options.microbatches;
}

// Returns the places of the entries of some parts among those of the whole model, by their names.
template <class Things, class Name>
Runs runs_of(const Things& all, const Things& some, Name name) {
  Runs runs(std::ssize(all));
  std::map<std::string, std::int64_t> places;
  for (std::int64_t i = 0; i < std::ssize(all); ++i) places[name(all[static_cast<std::size_t>(i)])] = i;
  for (const auto& one : some) runs.add(places.at(name(one)));
  return runs;
}

}  // namespace

ir::DType StepContext::sums() const { return to_ir(sum_dtype(options.state_dtype)); }

bool StepContext::reduces_sums() const {
  const auto is_sharded = [](const ShardPlacement& place) { return place.shards.ranks > 1; };
  return options.sharding.fsdp.replicas.ranks > 1 ||
         (has_whole_sums() && std::any_of(placements.begin(), placements.end(), is_sharded));
}

StepContextPtr make_step_context(const std::shared_ptr<const Decoder>& whole, const Decoders& parts,
                                 const StageEnds& ends, const TrainStepOptions& options) {
  const auto made = std::make_shared<StepContext>(StepContext{.model = parts.size() == 1 ? parts[0] : whole,
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
  StepContext& step = *made;
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
  return made;
}

BatchInputs::BatchInputs(SignatureBuilder& b, const StepContext& step, LossOf loss, std::int64_t rows,
                         std::int64_t whole_length)
    : loss(loss), rows(rows), length(whole_length / step.options.mesh.degree(Axis::cp)) {
  const TrainStepOptions& o = step.options;
  const auto over = [&](const Axes& axes, ir::Placement p) { return step.sharding.over(axes, p); };
  // Except in attention, a rank's part of a row is treated as a row.
  const ir::Sharding own_tokens = over(kTokenAxes, ir::sharded(0));
  buffers = b.constants();
  expert_biases = b.expert_biases();
  if (step.embedding)
    tokens = b.batch(BatchTensor::tokens, ir::DType::i64, {rows, length}, own_tokens);
  else
    hidden =
        b.add(stream(step, name_of(BatchTensor::received_hidden), ir::InputKind::batch, rows, whole_length));
  if (step.head) labels = b.batch(BatchTensor::labels, ir::DType::i64, {rows, length}, own_tokens);
  if (o.has_positions())
    positions = b.batch(BatchTensor::positions, ir::DType::i64, {rows, length}, own_tokens);
  if (o.divides_queries())
    query_positions = b.batch(BatchTensor::query_positions, ir::DType::i32, {rows, length}, own_tokens);
  if (o.divides_keys())
    key_positions = b.batch(BatchTensor::key_positions, ir::DType::i32, {rows, whole_length},
                            over(kDataAxes, ir::sharded(0)));
  if (o.document_attention)
    borders = b.batch(BatchTensor::document_borders, ir::DType::i32, {rows * whole_length + 1},
                      over(kDataAxes, ir::kLocal));
  if (step.head && loss == LossOf::step) valid_tokens = valid_tokens_input(b, step);
  std::string note;
  loss_rows = choose_loss_rows(step, rows * length, note);
  if (!note.empty()) b.function.notes.push_back(note);
}

BatchInputs training_batch(SignatureBuilder& b, const StepContext& step) {
  return {b, step, LossOf::step, step.options.local_batch_size, step.options.seq_len};
}

BatchInputs validation_batch(SignatureBuilder& b, const StepContext& step) {
  return {b, step, LossOf::labels, step.options.validation_batch_size, step.options.validation_seq_len};
}

std::size_t valid_tokens_input(SignatureBuilder& b, const StepContext& step) {
  return b.batch(BatchTensor::valid_tokens, ir::DType::f32, {},
                 step.sharding.over(kTokenAxes, ir::kPartialSum));
}

StepInput stream(const StepContext& step, const std::string& name, ir::InputKind kind, std::int64_t rows,
                 std::int64_t length) {
  const TrainStepOptions& o = step.options;
  const std::int64_t tokens = rows * length / (o.mesh.degree(Axis::cp) * o.mesh.degree(Axis::tp));
  Axes owners = kTokenAxes;
  owners.add(Axis::tp);
  return {name,
          kind,
          ir::contiguous(to_ir(o.sharding.fsdp.compute_dtype), {tokens, step.model->dim()}),
          {},
          step.sharding.over(owners, ir::sharded(0))};
}

std::shared_ptr<ForwardPass> forward_pass(const StepContextPtr& of, const BatchInputs& at_input,
                                          const Range& parameters, const BackwardSums& sums,
                                          const Tensors& inputs) {
  const StepContext& step = *of;
  const c10::AutoGradMode with_gradients(true);
  const auto pass = std::make_shared<ForwardPass>();
  for (const Tensor& input : parameters.of(inputs))
    pass->shards.push_back(input.detach().requires_grad_(true));
  pass->ranks = ranks_over(step, pass->shards, sums.at.of(inputs), sums.completes);
  pass->adds_gradients = sums.at.count > 0 && !sums.completes;
  ForwardInputs& forward = pass->inputs = forward_inputs(step, at_input, inputs);
  if (!step.embedding) forward.hidden_ND = pass->hidden = forward.hidden_ND->detach().requires_grad_(true);
  pass->loads.resize(static_cast<std::size_t>(step.router_runs.count()));
  forward.loads = &pass->loads;
  forward.sequence_weight = 1.0 / static_cast<double>(sequences_of_a_step(step.options));
  pass->loss_or_hidden = loss_or_hidden(step, pass->ranks, forward, at_input, inputs);
  pass->totals = StepTotals::of(step.head ? pass->loss_or_hidden.detach() : Tensor(), pass->loads);
  return pass;
}

Tensors gradients_of(const StepContext& step, const ForwardPass& pass, const Tensor& gradient, Wanted wanted,
                     bool keep) {
  const PhaseScope backward(Phase::backward);
  Tensors leaves, seeds;
  if (wanted.parameters) leaves = pass.shards;
  if (wanted.hidden && !step.embedding) leaves.push_back(pass.hidden);
  if (leaves.empty()) return {};
  if (!step.head) seeds = {gradient};
  Tensors made = torch::autograd::grad({pass.loss_or_hidden}, leaves, seeds, keep, /*create_graph=*/false,
                                       /*allow_unused=*/pass.adds_gradients);
  std::erase_if(made, [](const Tensor& one) { return !one.defined(); });
  if (step.parameters.empty())
    for (Tensor& one : made) one = one.clone();
  return made;
}

Tensor evaluate(const StepContext& step, const BatchInputs& at_input, const Range& parameters,
                const Tensors& inputs) {
  const c10::AutoGradMode no_gradients(false);
  const RankContext ranks = ranks_over(step, parameters.of(inputs));
  ForwardInputs forward = forward_inputs(step, at_input, inputs);
  return loss_or_hidden(step, ranks, forward, at_input, inputs);
}

Range totals_sums(SignatureBuilder& b, const StepContext& step) {
  const std::string of_stage = step.stage.empty() ? "" : "." + step.stage;
  Range range{b.function.inputs.size(), 0};
  const auto add = [&](const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes,
                       const Axes& axes) {
    b.state(name + of_stage, dtype, std::move(sizes), step.sharding.over(axes, ir::kPartialSum));
    ++range.count;
  };
  if (step.head) add(kLoss + "_sum", step.sums(), {}, kTokenAxes);
  if (!step.has_routers()) return range;
  add(kTokensPerExpert + "_sum", ir::DType::f32,
      {step.router_runs.count(), step.model->routed_tokens()->experts}, kAllAxes);
  if (step.is_bounded())  // ranks that share an expert count the same rows
    add(kDroppedTokens + "_sum", ir::DType::f32, {},
        step.options.mesh.degree(Axis::etp) > 1 ? kTokenAxes : kAllAxes);
  return range;
}

StepTotals totals_from(const StepContext& step, const Tensors& sums) {
  StepTotals totals;
  auto next = sums.begin();
  if (step.head) totals.loss = *next++;
  if (step.has_routers()) totals.tokens_per_expert_LE = *next++;
  if (step.has_routers() && step.is_bounded()) totals.dropped_tokens = *next++;
  return totals;
}

}  // namespace rondo

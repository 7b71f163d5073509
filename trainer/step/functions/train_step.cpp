// Each function is a signature and a body; inputs are found by positions that the signature handed out, and
// outputs must come in the order in which it declared them. Bodies capture shared, constant data only, since
// a trace and every eager run call them. Shards are detached first, so a gradient ends at the shard. State is
// overwritten where it lies; in a trace functionalization makes that a new value. Nothing here knows who runs
// it.
#include "trainer/step/functions/train_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

#include "ops/kernel/with_dtype.h"
#include "support/error.h"
#include "support/scope.h"
#include "trainer/data/loader.h"
#include "trainer/step/functions/load_balance.h"
#include "trainer/step/functions/placement.h"
#include "trainer/step/functions/step_signature.h"
#include "trainer/step/functions/step_totals.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Step {
  std::shared_ptr<const Decoder> model;
  TrainStepOptions options;
  std::int64_t routers;               // of the model
  std::vector<Placement> placements;  // of its parameters, in the table's order
  std::vector<UpdateGroup> update_groups;
  InputSharding sharding;
  ModelInputs inputs;

  // What the loss is, and microbatches are summed in.
  ir::DType sums() const { return to_ir(sum_dtype(options.state_dtype)); }
  bool has_routers() const { return routers > 0; }
  bool counts_dropped_tokens() const { return has_routers() && options.sharding.experts.is_bounded(); }
};
using StepPtr = std::shared_ptr<const Step>;

// The batch as the loss reads it.
struct BatchInputs {
  Range buffers, expert_biases;
  std::size_t tokens, labels, positions = 0, query_positions = 0, key_positions = 0, borders = 0,
                              valid_tokens;

  BatchInputs(SignatureBuilder& b, const Step& step, std::int64_t rows, std::int64_t length) {
    const TrainStepOptions& o = step.options;
    const std::int64_t own = length / o.mesh.degree(Axis::cp);  // tokens of each row
    const auto over = [&](const Axes& axes, ir::Placement p) { return step.sharding.over(axes, p); };
    // A rank's part of a row is a row of its own to all but attention.
    const ir::Sharding own_tokens = over(kTokenAxes, ir::sharded(0));
    buffers = b.constants();
    expert_biases = b.expert_biases();
    tokens = b.batch("tokens", ir::DType::i64, {rows, own}, own_tokens);
    labels = b.batch("labels", ir::DType::i64, {rows, own}, own_tokens);
    if (o.has_positions()) positions = b.batch("positions", ir::DType::i64, {rows, own}, own_tokens);
    if (o.divides_queries())
      query_positions = b.batch("query_positions", ir::DType::i32, {rows, own}, own_tokens);
    if (o.divides_keys())
      key_positions =
          b.batch("key_positions", ir::DType::i32, {rows, length}, over(kDataAxes, ir::sharded(0)));
    if (o.document_attention)
      borders = b.batch("document_borders", ir::DType::i32, {rows * length + 1}, over(kDataAxes, ir::kLocal));
    valid_tokens = b.scalar("valid_tokens", ir::InputKind::batch, over(kTokenAxes, ir::kPartialSum));
  }
};

BatchInputs training_batch(SignatureBuilder& b, const Step& step) {
  return {b, step, step.options.local_batch_size, step.options.seq_len};
}

ShardedWeights weights_over(const Step& step, const Tensors& shards) {
  std::map<std::string, ShardedWeights::Parameter> by_name;
  const auto& rules = step.model->parameters();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Placement& place = step.placements[i];
    by_name[rules[i].name] = {shards[i], place.shard.part_sizes(), place.shards};
  }
  return {std::move(by_name), step.options.sharding};
}

ForwardInputs forward_inputs(const Step& step, const BatchInputs& at_input, const Tensors& inputs) {
  ForwardInputs forward = ForwardInputs::of(inputs[at_input.tokens]);
  forward.buffers = at_input.buffers.of(inputs);
  forward.checkpoint = step.options.checkpoint;
  forward.expert_biases = at_input.expert_biases.of(inputs);
  forward.context_ranks = step.options.mesh.degree(Axis::cp);
  if (step.options.has_positions()) forward.positions_BT = inputs[at_input.positions];
  if (step.options.divides_queries()) forward.query_positions_BT = inputs[at_input.query_positions];
  if (step.options.divides_keys()) forward.key_positions_BS = inputs[at_input.key_positions];
  if (step.options.document_attention) forward.document_borders_N = inputs[at_input.borders];
  return forward;
}

// The share of this rank's batch in the mean loss: sum over its valid tokens / valid tokens of all batches of
// the step.
Tensor local_loss(const Step& step, const Weights& weights, const ForwardInputs& forward,
                  const Tensor& labels_BT, const Tensor& valid_tokens) {
  const Tensor logits_BTV = step.model->forward(weights, forward);
  ModuleScope scope("loss");
  const Tensor flat = logits_BTV.view({-1, logits_BTV.size(-1)}).to(sum_dtype(logits_BTV));
  const Tensor labels = labels_BT.view({-1});
  const TensorParallel& tensor = step.options.sharding.tensor;
  const Tensor sum =
      tensor.group.ranks == 1
          ? at::cross_entropy_loss(flat, labels, {}, at::Reduction::Sum, kIgnoreLabel)
          : vocabulary_parallel_cross_entropy(flat, labels, step.model->vocabulary(), kIgnoreLabel, tensor);
  return sum / sum_over_ranks(step.options.mesh, kTokenAxes, valid_tokens).to(sum.scalar_type());
}

// Of all ranks and all microbatches.
std::int64_t sequences_of_a_step(const Step& step) {
  return step.options.local_batch_size * step.options.mesh.degree(kDataAxes) * step.options.microbatches;
}

struct LossAndGradients {
  StepTotals totals;  // of this rank
  Tensors gradients;  // like the shards, reduced over the ranks
};
LossAndGradients forward_backward(const Step& step, const BatchInputs& at_input, const Range& parameters,
                                  const Tensors& inputs) {
  const c10::AutoGradMode with_gradients(true);
  Tensors shards;
  for (const Tensor& input : parameters.of(inputs)) shards.push_back(input.detach().requires_grad_(true));
  const ShardedWeights weights = weights_over(step, shards);  // these two outlive the backward
  ForwardInputs forward = forward_inputs(step, at_input, inputs);
  std::vector<RouterLoad> loads(static_cast<std::size_t>(step.routers));
  forward.loads = &loads;
  forward.sequence_weight = 1.0 / static_cast<double>(sequences_of_a_step(step));
  const Tensor loss =
      local_loss(step, weights, forward, inputs[at_input.labels], inputs[at_input.valid_tokens]);
  LossAndGradients made{StepTotals::of(loss.detach(), loads), {}};
  const PhaseScope backward(Phase::backward);
  made.gradients = torch::autograd::grad({loss}, shards);
  return made;
}

struct OptimizerInputs {
  Range parameters, exp_avgs, exp_avg_sqs;
  std::size_t step, halted, learning_rate = 0;

  OptimizerInputs(SignatureBuilder& b, const Step& of, Range parameters) : parameters(parameters) {
    const ir::DType moments = to_ir(of.options.moment_dtype.value_or(of.options.state_dtype));
    exp_avgs = b.per_parameter("exp_avg.", ir::InputKind::optimizer, moments);
    exp_avg_sqs = b.per_parameter("exp_avg_sq.", ir::InputKind::optimizer, moments);
    step = b.scalar("step", ir::InputKind::optimizer);
    halted = b.scalar(kHalted, ir::InputKind::buffer, {}, of.sums());
  }
  void updates(SignatureBuilder& b) const {
    b.updates(parameters);
    b.updates(exp_avgs);
    b.updates(exp_avg_sqs);
    b.update(step);
    b.update(halted);
  }
};

void append(Tensors& to, const Tensors& from) { to.insert(to.end(), from.begin(), from.end()); }

// What a microbatch, or the sum of them, gives to the update.
struct UpdateFrom {
  StepTotals totals;
  const Tensors& gradients;
  Tensors expert_biases;
};
// loss, grad_norm, found_inf (load_imbalance, tokens_per_expert (dropped_tokens)), then the new parameters,
// exp_avgs, exp_avg_sqs, step, halted and expert biases.
Tensors update_state(const Step& step, const OptimizerInputs& at_input, const UpdateFrom& from,
                     const Tensors& inputs) {
  const PhaseScope update(Phase::update);
  const c10::AutoGradMode no_gradients(false);
  const bool drops = step.options.expert_overflow == ExpertOverflow::drop;
  const Tensor& halted = inputs[at_input.halted];
  const Reduced r =
      reduce_and_clip(step.options.mesh, step.options.max_norm, drops, from.totals, from.gradients, halted);
  Balanced balanced;
  Tensor tokens_LE;
  if (step.has_routers()) {
    ModuleScope scope("load_balance");
    // A copy: what one rank counted may lie in the sums of microbatches, which begin again at zero.
    tokens_LE = sum_over_ranks(step.options.mesh, kAllAxes, from.totals.tokens_per_expert_LE)
                    .to(at::kFloat, false, /*copy=*/true);
    balanced = balance_load(from.expert_biases, tokens_LE, step.model->load_balance_coeff(), r.found_inf);
  }
  ModuleScope scope("optimizer");
  const OptimizerState state{at_input.parameters.of(inputs), at_input.exp_avgs.of(inputs),
                             at_input.exp_avg_sqs.of(inputs), inputs[at_input.step]};
  optimizer_update(state, from.gradients, inputs[at_input.learning_rate], r.gradient_scale, r.found_inf,
                   step.update_groups);
  Tensors outputs{r.loss, r.grad_norm, r.found_inf};
  if (tokens_LE.defined()) append(outputs, {balanced.load_imbalance, tokens_LE});
  if (r.dropped_tokens.defined()) outputs.push_back(r.dropped_tokens);
  append(outputs, state.parameters);
  append(outputs, state.exp_avgs);
  append(outputs, state.exp_avg_sqs);
  append(outputs, {state.step, halted});
  append(outputs, balanced.expert_biases);
  return outputs;
}

void plain_results(SignatureBuilder& b, const Step& step) {
  b.result(kLoss);
  b.result(kGradNorm);
  b.result(kFoundInf);
  if (step.has_routers()) {
    b.result(kLoadImbalance);
    b.result(kTokensPerExpert);
  }
  if (step.counts_dropped_tokens()) b.result(kDroppedTokens);
}

StepFunction make_single(const StepPtr& step) {
  SignatureBuilder b(step->inputs);
  b.function.name = "train_step";
  OptimizerInputs optimizer(b, *step, b.parameters());
  const BatchInputs batch = training_batch(b, *step);
  optimizer.learning_rate = b.scalar("learning_rate", ir::InputKind::batch);
  plain_results(b, *step);
  optimizer.updates(b);
  b.updates(batch.expert_biases);
  b.function.body = [step, optimizer, batch](const Tensors& inputs) {
    const LossAndGradients made = forward_backward(*step, batch, optimizer.parameters, inputs);
    const UpdateFrom from{made.totals, made.gradients, batch.expert_biases.of(inputs)};
    return update_state(*step, optimizer, from, inputs);
  };
  return b.function;
}

constexpr const char* kLossSum = "loss_sum";

// StepTotals::list() of the microbatches.
Range totals(SignatureBuilder& b, const Step& step) {
  const ir::Sharding of_loss = step.sharding.over(kTokenAxes, ir::kPartialSum);
  Range range{b.scalar(kLossSum, ir::InputKind::buffer, of_loss, step.sums()), 1};
  const auto add = [&](const std::string& name, std::vector<std::int64_t> sizes, const Axes& counted_by) {
    b.state(name, std::move(sizes), step.sharding.over(counted_by, ir::kPartialSum));
    ++range.count;
  };
  if (step.has_routers())
    add(kTokensPerExpert + "_sum", {step.routers, step.model->routed_tokens()->experts}, kAllAxes);
  if (step.counts_dropped_tokens())  // ranks that share an expert count the same rows
    add(kDroppedTokens + "_sum", {}, step.options.mesh.degree(Axis::etp) > 1 ? kTokenAxes : kAllAxes);
  return range;
}

// Gradients of the microbatches so far; not yet summed over replicas.
Range gradient_sums(SignatureBuilder& b, const Step& step) {
  const Range sums = b.per_parameter("grad.", ir::InputKind::buffer, step.sums());
  for (std::size_t i = 0; i < sums.count; ++i)
    b.function.inputs[sums.begin + i].sharding = step.sharding.of_gradient_sum(step.model->parameters()[i]);
  return sums;
}

StepFunction make_accumulate(const StepPtr& step) {
  SignatureBuilder b(step->inputs);
  b.function.name = "accumulate";
  const Range parameters = b.parameters();
  const Range sums = gradient_sums(b, *step);
  const Range other = totals(b, *step);
  const BatchInputs batch = training_batch(b, *step);
  b.updates(sums);
  b.updates(other);
  b.function.body = [=](const Tensors& inputs) {
    const LossAndGradients made = forward_backward(*step, batch, parameters, inputs);
    const PhaseScope update(Phase::update);
    const c10::AutoGradMode no_gradients(false);
    ModuleScope scope("accumulate");
    Tensors so_far = sums.of(inputs), more = made.gradients;
    append(so_far, other.of(inputs));
    append(more, made.totals.list());
    for (std::size_t i = 0; i < more.size(); ++i) so_far[i].add_(more[i]);
    return so_far;
  };
  return b.function;
}

StepFunction make_update(const StepPtr& step) {
  SignatureBuilder b(step->inputs);
  b.function.name = "update";
  OptimizerInputs optimizer(b, *step, b.parameters());
  const Range sums = gradient_sums(b, *step);
  const Range other = totals(b, *step);
  const Range biases = b.expert_biases();
  optimizer.learning_rate = b.scalar("learning_rate", ir::InputKind::batch);
  plain_results(b, *step);
  optimizer.updates(b);
  b.updates(biases);
  b.updates(sums);
  b.updates(other);
  b.function.body = [=](const Tensors& inputs) {
    const PhaseScope update(Phase::update);
    const c10::AutoGradMode no_gradients(false);
    Tensors gradients;
    for (std::size_t i = 0; const Tensor& sum : sums.of(inputs)) {
      const PathScope scope(step->model->parameters()[i++].name);
      gradients.push_back(sum_over_replicas(sum, step->options.sharding).to(step->options.state_dtype));
    }
    const StepTotals all =
        StepTotals::from(other.of(inputs), step->has_routers(), step->counts_dropped_tokens());
    const UpdateFrom from{all, gradients, biases.of(inputs)};
    Tensors outputs = update_state(*step, optimizer, from, inputs);
    for (const Range& range : {sums, other})
      for (const Tensor& sum : range.of(inputs)) outputs.push_back(sum.zero_());
    return outputs;
  };
  return b.function;
}

StepFunction make_validate(const StepPtr& step) {
  SignatureBuilder b(step->inputs);
  b.function.name = "validate";
  const Range parameters = b.parameters();
  const TrainStepOptions& o = step->options;
  const BatchInputs batch(b, *step, o.validation_batch_size, o.validation_seq_len);
  b.result(kLoss);
  b.function.body = [=](const Tensors& inputs) -> Tensors {
    const c10::AutoGradMode no_gradients(false);
    const ShardedWeights weights = weights_over(*step, parameters.of(inputs));
    const Tensor loss = local_loss(*step, weights, forward_inputs(*step, batch, inputs), inputs[batch.labels],
                                   inputs[batch.valid_tokens]);
    return {total_loss(step->options.mesh, loss)};
  };
  return b.function;
}

// In the order of their first parameters.
std::vector<UpdateGroup> update_groups(const Decoder& model, const TrainStepOptions& options) {
  std::vector<UpdateGroup> groups;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const ParameterUpdate update = options.update_of ? options.update_of(model.parameters()[i].name)
                                                     : ParameterUpdate{options.optimizer};
    const auto alike = std::find_if(groups.begin(), groups.end(),
                                    [&](const UpdateGroup& group) { return group.update == update; });
    (alike == groups.end() ? groups.emplace_back(UpdateGroup{update, {}}) : *alike).parameters.push_back(i);
  }
  return groups;
}

ModelInputs model_inputs(const Decoder& model, const std::vector<Placement>& placements,
                         const InputSharding& sharding, const TrainStepOptions& options) {
  ModelInputs inputs{.mesh = sharding.mesh(), .parameters = {}, .constants = {}, .expert_biases = {}};
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const ParameterRule& rule = model.parameters()[i];
    inputs.parameters.push_back({rule.name, ir::InputKind::parameter,
                                 ir::contiguous(to_ir(options.state_dtype), {placements[i].shard.stored()}),
                                 options.bucket ? options.bucket(rule.name, rule.bucket) : rule.bucket,
                                 sharding.of_parameter(rule)});
  }
  for (const Buffer& buffer : model.buffers(1)) {
    ir::TensorType type = type_of(buffer.value);
    type.sizes[0] = table_length(options);  // tables are [T, ...], contiguous
    type.dtype = to_ir(sum_dtype(options.state_dtype));
    inputs.constants.push_back({buffer.name, ir::InputKind::buffer, type, {}});
  }
  for (const ExpertBias& bias : model.expert_biases())
    inputs.expert_biases.push_back(
        {bias.name, ir::InputKind::buffer, ir::contiguous(ir::DType::f32, {bias.experts}), {}});
  return inputs;
}

}  // namespace

TrainStepFunctions make_train_step(const std::shared_ptr<const Decoder>& model,
                                   const TrainStepOptions& options) {
  std::vector<Placement> placements;
  for (const ParameterRule& rule : model->parameters())
    placements.push_back(placement_of(rule, options.mesh, options.rank));
  const InputSharding sharding(options.mesh);
  ModelInputs inputs = model_inputs(*model, placements, sharding, options);
  const auto step =
      std::make_shared<const Step>(Step{model, options, std::ssize(model->routers()), std::move(placements),
                                        update_groups(*model, options), sharding, std::move(inputs)});
  TrainStepFunctions functions;
  // A microbatch leaves the sum over replicas to the update, which takes it once.
  const bool accumulates = options.microbatches > 1;
  const auto forward_backward = [&](Step of) {
    if (accumulates) of.options.sharding.replicas = {};
    const auto shared = std::make_shared<const Step>(std::move(of));
    return accumulates ? make_accumulate(shared) : make_single(shared);
  };
  (accumulates ? functions.accumulate : functions.train_step) = forward_backward(*step);
  if (accumulates) functions.update = make_update(step);
  const auto with_room = std::make_shared<Step>(*step);
  with_room->options.sharding.experts.capacity_factor = 0;
  if (step->counts_dropped_tokens() && options.expert_overflow == ExpertOverflow::repeat) {
    functions.repeat = forward_backward(*with_room);
    functions.repeat.name = "repeat";
  }
  functions.validate = make_validate(with_room);
  return functions;
}

}  // namespace rondo

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

#include "datasets/loader.h"
#include "ops/kernel/with_dtype.h"
#include "support/scope.h"

namespace rondo {

using at::Tensor;

namespace {

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
  const Tensor output = step.model->forward(ranks, forward);
  if (forward.head) return output;
  if (step.head) return loss_of(step, ranks, output, inputs[at_input.labels], valid_tokens);
  // A stage without layers must return a tensor other than its input.
  return step.parameters.empty() ? output.clone() : output;
}

// Counts the sequences of all ranks and all microbatches.
std::int64_t sequences_of_a_step(const TrainStepOptions& options) {
  return options.local_batch_size * options.mesh.degree(kDataAxes) * options.microbatches;
}

}  // namespace

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
  Tensors gradients =
      torch::autograd::grad({pass.loss_or_hidden}, leaves, seeds, keep, /*create_graph=*/false,
                            /*allow_unused=*/pass.adds_gradients);
  std::erase_if(gradients, [](const Tensor& tensor) { return !tensor.defined(); });
  if (step.parameters.empty())
    for (Tensor& tensor : gradients) tensor = tensor.clone();
  return gradients;
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
  if (step.head) add(kLoss + "_sum", step.dtype_of_sums(), {}, kTokenAxes);
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

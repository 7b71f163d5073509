// Builds the functions of gradient accumulation. The signature of make_accumulate's function is
// built in one place, so that the traced body, the eager bodies and the update agree.
#include "trainer/step/functions/microbatches.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <optional>
#include <unordered_map>

#include "support/error.h"
#include "support/scope.h"
#include "trainer/step/functions/gradient_sums.h"
#include "trainer/step/functions/update_state.h"

namespace rondo {
namespace {

using at::Tensor;

struct Accumulate {
  explicit Accumulate(const StepContext& step) : b(step.inputs) {
    const TrainStepOptions& o = step.options;
    parameters = b.parameters();
    sums = gradient_sums(b, step);
    if (step.has_whole_sums()) of_backward.at = sums;
    totals = totals_sums(b, step);
    const auto add_stream = [&](const std::string& name, ir::InputKind kind) {
      return b.add(stream(step, name, kind, o.local_batch_size, o.seq_len));
    };
    if (!step.head) sent_hidden = add_stream(kSentHidden, ir::InputKind::saved);
    if (!step.embedding) sent_gradient = add_stream(kSentGradient, ir::InputKind::saved);
    batch.emplace(training_batch(b, step));
    if (!step.head)
      received_gradient = add_stream(name_of(BatchTensor::received_gradient), ir::InputKind::batch);
    b.updates(sums);
    b.updates(totals);
    if (!step.head) b.update(sent_hidden);
    if (!step.embedding) b.update(sent_gradient);
  }

  SignatureBuilder b;
  Range parameters, sums, totals;
  BackwardSums of_backward;  // whole sums: the backward itself adds to them
  std::size_t sent_hidden = 0, sent_gradient = 0, received_gradient = 0;
  std::optional<BatchInputs> batch;
};

// Zeroes or adds in place, and returns the overwritten tensors.
Tensors zeroed(Tensors tensors) {
  for (Tensor& tensor : tensors) tensor.zero_();
  return tensors;
}
Tensors added(Tensors so_far, const Tensors& more) {
  const PhaseScope update(Phase::update);
  const c10::AutoGradMode no_gradients(false);
  ModuleScope scope("accumulate");
  for (std::size_t i = 0; i < more.size(); ++i) so_far[i].add_(more[i]);
  return so_far;
}

}  // namespace

StepFunction make_accumulate(const StepContextPtr& step) {
  Accumulate in(*step);
  SignatureBuilder b = std::move(in.b);
  return b.build(step->stage.empty() ? "accumulate" : step->stage,
                 [step, in](const Tensors& inputs, StepOutputs& outputs) {
                   const auto pass = forward_pass(step, *in.batch, in.parameters, in.of_backward, inputs);
                   const Tensor gradient = step->head ? Tensor() : inputs[in.received_gradient];
                   if (!step->head) outputs.update(in.sent_hidden, pass->loss_or_hidden.detach());
                   Tensors gradients = gradients_of(*step, *pass, gradient, {});
                   if (!step->embedding) {
                     outputs.update(in.sent_gradient, gradients.back());
                     gradients.pop_back();
                   }
                   outputs.update(in.sums, added(in.sums.of(inputs), gradients));
                   outputs.update(in.totals, added(in.totals.of(inputs), pass->totals.list()));
                 });
}

EagerBody make_eager_body(const StepContextPtr& step) {
  const auto in = std::make_shared<const Accumulate>(*step);
  const auto passes = std::make_shared<std::unordered_map<std::int64_t, std::shared_ptr<ForwardPass>>>();
  return [step, in, passes](ir::Body body, std::int64_t microbatch, const Tensors& inputs) {
    if (body == ir::Body::unshard) return;
    if (body == ir::Body::forward) {
      const auto pass = forward_pass(step, *in->batch, in->parameters, in->of_backward, inputs);
      added(in->totals.of(inputs), pass->totals.list());
      const c10::AutoGradMode no_gradients(false);
      if (!step->head) inputs[in->sent_hidden].copy_(pass->loss_or_hidden);
      (*passes)[microbatch] = pass;
      return;
    }
    const Tensor gradient = step->head ? Tensor() : inputs[in->received_gradient];
    const bool first_half = body == ir::Body::backward_input;
    const Wanted wanted{.parameters = !first_half, .hidden = body != ir::Body::backward_weight};
    Tensors gradients = gradients_of(*step, *passes->at(microbatch), gradient, wanted, first_half);
    if (wanted.hidden && !step->embedding) {
      const c10::AutoGradMode no_gradients(false);
      inputs[in->sent_gradient].copy_(gradients.back());
      gradients.pop_back();
    }
    added(in->sums.of(inputs), gradients);
    if (!first_half) passes->erase(microbatch);
  };
}

std::optional<StepFunction> make_reduce(const StepContextPtr& stage) {
  SignatureBuilder b(stage->inputs);
  b.parameters();  // for their buckets
  const Range sums = gradient_sums(b, *stage);
  const ReducedSums reduced = reduced_sums(b, *stage);
  if (!reduced.any()) return std::nullopt;
  for (const auto& shard : reduced.at)
    if (shard) b.update(*shard);
  return b.build(stage->stage + ".reduce", [=](const Tensors& inputs, StepOutputs& outputs) {
    const PhaseScope backward(Phase::backward);
    const c10::AutoGradMode no_gradients(false);
    // Copies, since the shards of a bucket are reduced together and are slices of one result.
    for (std::size_t i = 0; i < sums.count; ++i)
      if (reduced.at[i])
        outputs.update(*reduced.at[i], reduced_sum(*stage, i, inputs[sums.begin + i]).clone());
  });
}

StepFunction make_update(const StepContextPtr& step, const std::vector<StepContextPtr>& stages,
                         bool stages_reduce) {
  SignatureBuilder b(step->inputs);
  OptimizerInputs optimizer(b, *step, b.parameters());
  const Range sums = gradient_sums(b, *step);
  ReducedSums reduced;
  reduced.at.resize(sums.count);
  if (stages_reduce) reduced = reduced_sums(b, *step);
  std::vector<Range> totals;
  for (const StepContextPtr& stage : stages) totals.push_back(totals_sums(b, *stage));
  const Range biases = b.expert_biases();
  optimizer.learning_rate = b.batch(BatchTensor::learning_rate, ir::DType::f32, {}, {});
  declare_results(b, *step);
  optimizer.updates(b);
  b.updates(biases);
  b.updates(sums);
  for (const Range& range : totals) b.updates(range);
  return b.build("update", [=](const Tensors& inputs, StepOutputs& outputs) {
    const PhaseScope update(Phase::update);
    const c10::AutoGradMode no_gradients(false);
    Tensors gradients;
    for (std::size_t i = 0; i < sums.count; ++i)
      gradients.push_back(reduced.at[i] ? inputs[*reduced.at[i]]
                                        : reduced_sum(*step, i, inputs[sums.begin + i]));
    std::vector<StepTotals> stage_totals;
    for (std::size_t i = 0; i < stages.size(); ++i)
      stage_totals.push_back(totals_from(*stages[i], totals[i].of(inputs)));
    update_state(*step, optimizer, {StepTotals::together(stage_totals), gradients, biases}, inputs, outputs);
    outputs.update(sums, zeroed(sums.of(inputs)));
    for (const Range& range : totals) outputs.update(range, zeroed(range.of(inputs)));
  });
}

StepFunction make_last(const StepContextPtr& step) {
  SignatureBuilder b(step->inputs);
  OptimizerInputs optimizer(b, *step, b.parameters());
  const Range sums = gradient_sums(b, *step);
  const Range totals = totals_sums(b, *step);
  const BatchInputs batch = training_batch(b, *step);
  optimizer.learning_rate = b.batch(BatchTensor::learning_rate, ir::DType::f32, {}, {});
  declare_results(b, *step);
  optimizer.updates(b);
  b.updates(batch.expert_biases);
  b.updates(sums);
  b.updates(totals);
  return b.build("last", [=](const Tensors& inputs, StepOutputs& outputs) {
    const auto pass =
        forward_pass(step, batch, optimizer.parameters, {.at = sums, .completes = true}, inputs);
    const Tensors gradients = gradients_of(*step, *pass, {}, {});
    const Tensors step_totals = added(totals.of(inputs), pass->totals.list());
    update_state(*step, optimizer, {totals_from(*step, step_totals), gradients, batch.expert_biases}, inputs,
                 outputs);
    const PhaseScope update(Phase::update);
    const c10::AutoGradMode no_gradients(false);
    outputs.update(sums, zeroed(sums.of(inputs)));
    outputs.update(totals, zeroed(totals.of(inputs)));
  });
}

}  // namespace rondo

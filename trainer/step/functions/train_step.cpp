// Builds each function from a signature and a body, which reads inputs and writes outputs by the
// positions of the signature.
#include "trainer/step/functions/train_step.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "trainer/step/functions/microbatches.h"
#include "trainer/step/functions/step_parts.h"
#include "trainer/step/functions/update_state.h"

namespace rondo {
namespace {

using at::Tensor;

StepFunction make_single(const StepContextPtr& step) {
  SignatureBuilder b(step->inputs);
  OptimizerInputs optimizer(b, *step, b.parameters());
  const BatchInputs batch = training_batch(b, *step);
  optimizer.learning_rate = b.batch(BatchTensor::learning_rate, ir::DType::f32, {}, {});
  declare_results(b, *step);
  optimizer.updates(b);
  b.updates(batch.expert_biases);
  return b.build("train_step", [step, optimizer, batch](const Tensors& inputs, StepOutputs& outputs) {
    const auto pass = forward_pass(step, batch, optimizer.parameters, {}, inputs);
    const Tensors gradients = gradients_of(*step, *pass, {}, {});
    update_state(*step, optimizer, {pass->totals, gradients, batch.expert_biases}, inputs, outputs);
  });
}

StepFunction make_validate(const StepContextPtr& step) {
  SignatureBuilder b(step->inputs);
  const Range parameters = b.parameters();
  const BatchInputs batch = validation_batch(b, *step);
  const std::size_t valid_tokens = valid_tokens_input(b, *step);
  b.result(kLoss);
  b.result(kLabels);
  return b.build("validate", [=](const Tensors& inputs, StepOutputs& outputs) {
    const Tensor loss = evaluate(*step, batch, parameters, inputs);
    const c10::AutoGradMode no_gradients(false);
    outputs.result(kLoss, total_loss(step->options.mesh, loss));
    outputs.result(kLabels, total_labels(step->options.mesh, inputs[valid_tokens]));
  });
}

}  // namespace

TrainStepFunctions make_train_step(const std::shared_ptr<const Decoder>& model,
                                   const TrainStepOptions& options) {
  const auto context = [&](const TrainStepOptions& o) { return make_step_context(model, {model}, {}, o); };
  const bool accumulates = options.microbatches > 1;
  const auto per_microbatch = [&](const TrainStepOptions& o) {
    return accumulates ? make_accumulate(context(without_replica_sums(o))) : make_single(context(o));
  };
  const TrainStepOptions with_room = with_room_for_all_tokens(options);
  const StepContextPtr step = context(options);
  TrainStepFunctions functions{.microbatches = options.microbatches,
                               .microbatch = per_microbatch(options),
                               .last = {},
                               .update = {},
                               .repeat = {},
                               .validate = make_validate(context(with_room))};
  if (step->has_routers() && step->is_bounded() && options.expert_overflow == ExpertOverflow::repeat) {
    functions.repeat = per_microbatch(with_room);
    functions.repeat->name = "repeat";
  }
  if (!accumulates) return functions;
  if (step->reduces_sums()) functions.last = make_last(step);
  if (!functions.last || functions.repeat)
    functions.update = make_update(step, {step}, /*stages_reduce=*/false);
  return functions;
}

}  // namespace rondo

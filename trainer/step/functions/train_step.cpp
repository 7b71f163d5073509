// Each function is a signature and a body; outputs must come in the order in which the signature declared
// them. Nothing here knows who runs it.
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
  b.function.name = "train_step";
  OptimizerInputs optimizer(b, *step, b.parameters());
  const BatchInputs batch = training_batch(b, *step);
  optimizer.learning_rate = b.scalar("learning_rate", ir::InputKind::batch);
  plain_results(b, *step);
  optimizer.updates(b);
  b.updates(batch.expert_biases);
  b.function.body = [step, optimizer, batch](const Tensors& inputs) {
    const auto pass = forward_pass(step, batch, optimizer.parameters, {}, inputs);
    const Tensors gradients = gradients_of(*step, *pass, {}, {});
    const UpdateFrom from{pass->totals, gradients, batch.expert_biases.of(inputs)};
    return update_state(*step, optimizer, from, inputs);
  };
  return b.function;
}

StepFunction make_validate(const StepContextPtr& step) {
  SignatureBuilder b(step->inputs);
  b.function.name = "validate";
  const Range parameters = b.parameters();
  const TrainStepOptions& o = step->options;
  const BatchInputs batch(b, *step, o.validation_batch_size, o.validation_seq_len);
  b.result(kLoss);
  b.function.body = [=](const Tensors& inputs) -> Tensors {
    const Tensor loss = evaluate(*step, batch, parameters, inputs);
    const c10::AutoGradMode no_gradients(false);
    return {total_loss(step->options.mesh, loss)};
  };
  return b.function;
}

}  // namespace

TrainStepFunctions make_train_step(const std::shared_ptr<const Decoder>& model,
                                   const TrainStepOptions& options) {
  const auto made_with = [&](const TrainStepOptions& o) { return make_step_context(model, {model}, {}, o); };
  TrainStepFunctions functions;
  // A microbatch leaves the sum over replicas to the update, which takes it once.
  const bool accumulates = options.microbatches > 1;
  const auto forward_backward = [&](TrainStepOptions o) {
    if (accumulates) o.sharding.replicas = {};
    return accumulates ? make_accumulate(made_with(o)) : make_single(made_with(o));
  };
  (accumulates ? functions.accumulate : functions.train_step) = forward_backward(options);
  const StepContextPtr step = made_with(options);
  if (accumulates) functions.update = make_update(step, {step});
  TrainStepOptions with_room = options;
  with_room.sharding.experts.capacity_factor = 0;
  if (step->has_routers() && step->is_bounded() && options.expert_overflow == ExpertOverflow::repeat) {
    functions.repeat = forward_backward(with_room);
    functions.repeat.name = "repeat";
  }
  functions.validate = make_validate(made_with(with_room));
  return functions;
}

}  // namespace rondo

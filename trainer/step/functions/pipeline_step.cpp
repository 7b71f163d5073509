#include "trainer/step/functions/pipeline_step.h"

#include <c10/core/GradMode.h>

#include <string>

#include "trainer/step/functions/step_parts.h"
#include "trainer/step/functions/update_state.h"

namespace rondo {
namespace {

// Builds the validation of a stage: the forward alone.
StepFunction make_stage_validate(const StepContextPtr& step) {
  const TrainStepOptions& o = step->options;
  SignatureBuilder b(step->inputs);
  const Range parameters = b.parameters();
  const std::size_t output =
      step->head ? b.scalar(name_of(BatchTensor::stage_loss), ir::InputKind::saved,
                            step->sharding.over(kTokenAxes, ir::kPartialSum), step->dtype_of_sums())
                 : b.add(stream(*step, kSentHidden, ir::InputKind::saved, o.validation_batch_size,
                                o.validation_seq_len));
  const BatchInputs batch = validation_batch(b, *step);
  b.update(output);
  return b.build("validate_" + step->stage, [=](const Tensors& inputs, StepOutputs& outputs) {
    outputs.update(output, evaluate(*step, batch, parameters, inputs));
  });
}

StepFunction make_validate_total(const StepContextPtr& step) {
  SignatureBuilder b(step->inputs);
  const std::size_t loss = b.batch(BatchTensor::stage_loss, step->dtype_of_sums(), {},
                                   step->sharding.over(kTokenAxes, ir::kPartialSum));
  const std::size_t valid_tokens = valid_tokens_input(b, *step);
  b.result(kLoss);
  b.result(kLabels);
  return b.build("validate", [=](const Tensors& inputs, StepOutputs& outputs) {
    const c10::AutoGradMode no_gradients(false);
    outputs.result(kLoss, total_loss(step->options.mesh, inputs[loss]));
    outputs.result(kLabels, total_labels(step->options.mesh, inputs[valid_tokens]));
  });
}

}  // namespace

PipelineFunctions make_pipeline_step(const std::shared_ptr<const Decoder>& model,
                                     const std::vector<StagePart>& parts,
                                     const std::vector<std::int64_t>& of_rank,
                                     const TrainStepOptions& options) {
  const TrainStepOptions microbatch_options = without_replica_sums(options),
                         with_room = with_room_for_all_tokens(options);
  PipelineFunctions functions;
  Decoders decoders;
  std::vector<StepContextPtr> stages;
  for (const std::int64_t stage : of_rank) {
    const StagePart& part = parts.at(static_cast<std::size_t>(stage));
    decoders.push_back(model->stage(part));
    const StageEnds ends{"stage_" + std::to_string(stage), part.embedding, part.head};
    const StepContextPtr step =
        stages.emplace_back(make_step_context(model, {decoders.back()}, ends, microbatch_options));
    functions.stages.push_back(
        {stage, part.embedding, part.head, make_accumulate(step), make_eager_body(step),
         make_reduce(make_step_context(model, {decoders.back()}, ends, options)),
         make_stage_validate(make_step_context(model, {decoders.back()}, ends, with_room))});
  }
  const StepContextPtr rank = make_step_context(model, decoders, {}, options);
  functions.update = make_update(rank, stages, /*stages_reduce=*/true);
  functions.validate = make_validate_total(rank);
  return functions;
}

}  // namespace rondo

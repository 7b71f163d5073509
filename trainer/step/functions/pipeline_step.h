// The functions of a step whose layers are divided among the stages of a pipeline, as one rank sees it.
//
// Pipeline microbatch m has the rows of accumulation microbatch m (datasets/loader.h, Note [the data
// law]), and each stage adds up its gradients in the order of microbatches: so the bits are those of the same
// microbatches without a pipeline, whatever the schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/step/functions/microbatches.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {

struct StageFunctions {
  std::int64_t stage = 0;  // of the pipeline
  bool embedding = true, head = true;
  StepFunction accumulate;  // of a microbatch, to be cut into bodies
  EagerBody eager;          // these, one by one
  StepFunction
      validate;  // leaves the stream that the stage gives in kSentHidden, or else BatchTensor::stage_loss
};

struct PipelineFunctions {
  std::vector<StageFunctions> stages;  // of the rank, ascending
  StepFunction update;                 // of all of them
  StepFunction validate;               // the loss of all ranks, given BatchTensor::stage_loss of each
};

// `parts`: of all stages, in order; `of_rank`: which of them the rank has, ascending.
PipelineFunctions make_pipeline_step(const std::shared_ptr<const Decoder>& model,
                                     const std::vector<StagePart>& parts,
                                     const std::vector<std::int64_t>& of_rank,
                                     const TrainStepOptions& options);

}  // namespace rondo

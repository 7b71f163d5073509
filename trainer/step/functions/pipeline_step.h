// Builds the functions of a pipelined step for one rank.
//
// Microbatch m of a pipeline has the rows of microbatch m of gradient accumulation
// (datasets/loader.h, Note [the data law]), and each stage adds its gradients in the order of
// microbatches. So the bits are those of accumulation without a pipeline, with every schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/step/functions/microbatches.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {

struct StageFunctions {
  std::int64_t stage = 0;  // of the pipeline
  bool embedding = true, head = true;
  StepFunction accumulate;  // one microbatch; it is cut into subgraphs
  EagerBody eager;          // runs one of the subgraphs
  // Runs after the last microbatch, if the stage has sums that are reduced before the update.
  std::optional<StepFunction> reduce;
  StepFunction validate;  // writes kSentHidden, or BatchTensor::stage_loss with the head
};

struct PipelineFunctions {
  std::vector<StageFunctions> stages;  // of the rank, ascending
  StepFunction update;                 // of all stages of the rank
  StepFunction validate;               // all-reduces BatchTensor::stage_loss
};

// `parts` has all stages in order; `of_rank` names those of the rank, ascending.
PipelineFunctions make_pipeline_step(const std::shared_ptr<const Decoder>& model,
                                     const std::vector<StagePart>& parts,
                                     const std::vector<std::int64_t>& of_rank,
                                     const TrainStepOptions& options);

}  // namespace rondo

// The functions of a step, compiled; and what a rank's memory holds for them. Made before any weight exists.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/compile.h"
#include "parallel/pipeline/prove.h"
#include "trainer/step/functions/pipeline_step.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {

struct CompiledFunctions;

// Of a rank, over all functions of its step: they share their inputs, and take turns in one arena.
struct PlannedMemory {
  std::array<std::int64_t, ir::kInputKinds> input_bytes{};  // by InputKind
  std::int64_t arena_bytes = 0;
  ir::MemoryReport report;  // of the function with the largest arena

  std::int64_t total_bytes() const;
};
PlannedMemory planned_memory(const CompiledFunctions& functions);

// How long what one body leaves for another lasts: all of a step; from a microbatch's forward to the last of
// its backward; from backward_input to backward_weight.
enum class Lasting : std::uint8_t { step, microbatch, pending };

struct CompiledBody {
  ir::Body body;
  CompiledStep step;
};
ir::Body body_of(pipeline::ActionType compute);
// Whether a body, or a pair of them, reads it of another stage.
bool is_received(const StepInput& input);

// A stage of a pipeline. `slots`: for microbatches whose values it holds at once, `pending_slots` for those
// between the two parts of their backward, a divisor of that. Microbatch m is in slot m mod slots.
struct CompiledStage {
  std::int64_t stage = 0;
  bool embedding = true, head = true;
  std::int32_t slots = 1, pending_slots = 1;
  std::vector<CompiledBody> bodies;        // without those that no action runs; none where it is eager
  std::optional<CompiledStep> accumulate;  // eager: all of them in one, for its inputs
  EagerBody eager;
  std::optional<CompiledStep> validate;

  // nullptr: there is none.
  const CompiledStep* body(ir::Body wanted) const;
  // The inputs of kind `saved`, of one slot.
  std::map<std::string, ir::TensorType> saved(Lasting lasting) const;
  std::int64_t saved_bytes(Lasting lasting) const;  // of one slot
};
// What a rank plays of it.
struct PipelineSchedule {
  pipeline::Program program;  // lowered and proven
  pipeline::Proof proof;
  std::int64_t rank = 0;                 // of the pipeline
  std::vector<std::int64_t> ranks = {};  // of the job, that are the pipeline's

  // The stages of the rank, ascending, and its actions.
  std::vector<std::int64_t> stages_of_rank() const;
  const std::vector<pipeline::Action>& actions() const {
    return program.ranks[static_cast<std::size_t>(rank)];
  }
};
// The forward of one stage and the backward of one, of other microbatches, that the schedule runs together.
struct CompiledPair {
  std::size_t forward_stage = 0, backward_stage = 0;  // of CompiledPipeline::stages
  ir::Body backward = ir::Body::backward;
  CompiledStep step;  // its inputs are named by ir::name_in_pair
};

struct CompiledPipeline : PipelineSchedule {
  std::vector<CompiledStage> stages;
  std::vector<CompiledPair> pairs;

  // nullptr: the two run one after the other, as eager ones do. REQUIRES: a pair of the schedule.
  const CompiledPair* pair(const pipeline::Action& forward, const pipeline::Action& backward) const;
  // Where a stage of this rank is in `stages`.
  std::size_t index_of(std::int64_t stage) const;
  // For the schedule's rank, whose stages the functions are, or are like but for names.
  void place(const PipelineSchedule& schedule);
  // Of what stages have received and not read for the last time: the most at once.
  std::int64_t most_received() const;
};

// `repeat` computes all again that it can, with MemoryPolicy::full and all-to-alls too: it is rare, has the
// same bits, and shares the arena of the others.
struct CompiledFunctions {
  std::optional<CompiledStep> train_step, accumulate, update, repeat, validate;
  std::optional<CompiledPipeline> pipeline;  // instead of train_step and accumulate

  CompiledFunctions(const TrainStepFunctions& functions, const CompileRequest& request, bool with_validation);
  CompiledFunctions(const PipelineFunctions& functions, const PipelineSchedule& schedule,
                    const CompileRequest& request, bool with_validation);
  // Of a program that trains nothing.
  CompiledFunctions(const StepFunction& validation, const CompileRequest& request) {
    validate.emplace(validation, request);
  }
  std::vector<const CompiledStep*> all() const;
  bool trains() const { return train_step || accumulate || pipeline; }
  // REQUIRES: trains(), and no pipeline.
  const CompiledStep& forward_backward() const { return train_step ? *train_step : *accumulate; }
  // Whether all functions fit into `bytes`, or `repeat` takes no more than the function that it repeats.
  // Eager functions have no plan and always fit. REQUIRES: repeat.
  bool repeat_fits(std::int64_t bytes) const;
};

}  // namespace rondo

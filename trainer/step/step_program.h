// The compiled functions of a rank's step, and the calls that a step is: `train_step`; or `accumulate` for
// each microbatch and then `update`; or, as a rank of a pipeline, the actions of its schedule and then
// `update`. Built before any weight exists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "trainer/step/functions/pipeline_step.h"
#include "trainer/step/functions/train_step.h"
#include "trainer/step/pipeline_program.h"

namespace rondo {

// One run of a function. Its batch inputs are read from this microbatch of the step.
struct Call {
  const CompiledStep* function = nullptr;  // in StepProgram::functions
  std::size_t microbatch = 0;
};

struct StepProgram {
  // The last call of each list returns the numbers of the step. Empty lists: nothing is trained; no step is
  // repeated; nothing is validated.
  std::vector<Call> step, repeat, validation;
  // Runs before the calls: the microbatches of a step, the forward of a validation batch.
  std::optional<CompiledPipeline> pipeline;
  std::list<CompiledStep> functions;  // of the calls; a call points into it

  StepProgram(const TrainStepFunctions& functions, const CompileRequest& request, bool with_validation);
  StepProgram(const PipelineFunctions& functions, const PipelineSchedule& schedule,
              const CompileRequest& request, bool with_validation);
  // A program that only validates.
  StepProgram(const StepFunction& validation, const CompileRequest& request);
  StepProgram(StepProgram&&) = default;
  StepProgram& operator=(StepProgram&&) = default;

  // Every function, those of the pipeline first: the same order on all ranks of a stage.
  std::vector<const CompiledStep*> all() const;
  // The function of `functions` with this name: "train_step", "accumulate", "update", "repeat", "validate";
  // nullptr: there is none.
  const CompiledStep* find(std::string_view name) const;
  const CompiledStep& at(std::string_view name) const;  // REQUIRES: there is one

  // Whether all functions fit into `bytes`, or the repeat needs no larger arena than the step. Eager functions
  // have no plan and always fit. REQUIRES: a repeat.
  bool repeat_fits(std::int64_t bytes) const;
  // From here on a step that would be repeated is skipped.
  void drop_repeat();

 private:
  const CompiledStep* add(const StepFunction& function, const CompileRequest& request);
};

// The memory of a rank over all functions of its step. They share their inputs and take turns in one arena.
struct PlannedMemory {
  std::array<std::int64_t, ir::kInputKinds> input_bytes{};  // by InputKind
  std::int64_t arena_bytes = 0;
  ir::MemoryReport report;  // of the function with the largest arena

  std::int64_t total_bytes() const;
};
PlannedMemory planned_memory(const StepProgram& program);

}  // namespace rondo

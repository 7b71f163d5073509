// The compiled functions of a rank's step, and the calls of a step: `train_step`; or `accumulate`
// for each microbatch and then `update`, or `last` in place of the last two; or, on a rank that
// follows a schedule, its actions and then `update`. Built before any weight exists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
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
  // The last call of each list returns the numbers of the step. An empty list means no training, no
  // repeat of steps, or no validation.
  std::vector<Call> step, repeat, validation;
  // Runs before the calls: the microbatches of a step, or the forward of a validation batch.
  std::optional<CompiledPipeline> pipeline;
  std::list<CompiledStep> functions;  // of the calls, which point into it

  StepProgram(const TrainStepFunctions& functions, const CompileRequest& request, bool with_validation);
  StepProgram(const PipelineFunctions& functions, const PipelineSchedule& schedule,
              const CompileRequest& request, bool with_validation);
  // Creates a program that only validates.
  StepProgram(const StepFunction& validation, const CompileRequest& request);
  StepProgram(StepProgram&&) = default;
  StepProgram& operator=(StepProgram&&) = default;

  // Returns all functions, the pipeline's first, in the same order on all ranks of a stage.
  std::vector<const CompiledStep*> all() const;
  // Returns the function with this name: "train_step", "accumulate", "last", "update",
  // "repeat", "validate"; nullptr if there is none.
  const CompiledStep* find(std::string_view name) const;
  const CompiledStep& at(std::string_view name) const;  // REQUIRES: it exists

  // Returns whether all functions fit into `bytes`, or the repeat needs no larger arena than the
  // step. Eager functions have no plan and always fit. REQUIRES: `repeat` is not empty.
  bool repeat_fits(std::int64_t bytes) const;
  // Removes the repeat: from here on such a step is skipped.
  void drop_repeat();

 private:
  const CompiledStep* add(const StepFunction& function, const CompileRequest& request);
};

// The memory of a rank for all functions of its step, which share their inputs and one arena.
struct PlannedMemory {
  // By InputKind, on the device and in host memory.
  std::array<std::int64_t, ir::kInputKinds> input_bytes{}, host_input_bytes{};
  std::int64_t arena_bytes = 0, host_arena_bytes = 0;
  ir::MemoryReport report;  // of the function with the largest arena

  std::int64_t total_bytes() const;       // on the device
  std::int64_t host_total_bytes() const;  // in host memory
  std::string text() const;               // "17.7 GiB and 89.7 GiB in host memory"
};
PlannedMemory planned_memory(const StepProgram& program);

}  // namespace rondo

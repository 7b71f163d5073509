// Compiles the part of a pipeline that one rank runs: its schedule, and the subgraphs of
// its stages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "parallel/pipeline/prove.h"
#include "trainer/step/functions/pipeline_step.h"

namespace rondo {

// Lifetime of a value that one subgraph saves for another. `step`: the whole step;
// `microbatch`: from a microbatch's forward to the end of its backward; `pending`: from
// backward_input to backward_weight.
enum class Lifetime : std::uint8_t { step, microbatch, pending };

struct CompiledBody {
  ir::Body body;
  CompiledStep step;
};
ir::Body body_of(pipeline::ActionType compute);

// A stage of a pipeline. `slots`: the number of microbatches whose saved values it holds at once.
// `pending_slots`, a divisor of `slots`: the number of these microbatches between backward_input
// and backward_weight. Microbatch m is in slot m mod slots.
struct CompiledStage {
  std::int64_t stage = 0;
  bool embedding = true, head = true;
  std::int32_t slots = 1, pending_slots = 1;
  std::vector<CompiledBody> bodies;        // those that an action runs; empty for eager steps
  std::optional<CompiledStep> accumulate;  // eager steps: the function whose inputs all bodies share
  EagerBody eager;
  ir::Body last = ir::Body::backward;  // the body that Body::last_backward replaces
  // Reduces gradient sums after the last microbatch. Absent if there are none to reduce then, or if
  // Body::last_backward reduces them.
  std::optional<CompiledStep> reduce;
  std::optional<CompiledStep> validate;

  // Returns nullptr if no action runs it.
  const CompiledStep* body(ir::Body wanted) const;
  // Returns the inputs of kind `saved` of one slot.
  std::map<std::string, ir::TensorType> saved(Lifetime lifetime) const;
  std::int64_t saved_bytes(Lifetime lifetime) const;  // of one slot
};

// A schedule, and the rank that runs its part of it.
struct PipelineSchedule {
  pipeline::Program program;  // lowered and proven
  pipeline::Proof proof;
  std::int64_t rank = 0;                 // within the pipeline
  std::vector<std::int64_t> ranks = {};  // the pipeline's ranks, as ranks of the job

  // Return the stages of the rank, ascending, and its actions.
  std::vector<std::int64_t> stages_of_rank() const;
  const std::vector<pipeline::Action>& actions() const {
    return program.ranks[static_cast<std::size_t>(rank)];
  }
};

// The forward of one stage and the backward of another microbatch, which the schedule
// runs together.
struct CompiledPair {
  std::size_t forward_stage = 0, backward_stage = 0;  // in CompiledPipeline::stages
  ir::Body backward = ir::Body::backward;
  CompiledStep step;  // its inputs are named by ir::name_in_pair
};

struct CompiledPipeline : PipelineSchedule {
  std::vector<CompiledStage> stages;
  std::vector<CompiledPair> pairs;

  // Returns all functions: stage by stage, then the pairs.
  std::vector<const CompiledStep*> functions() const;
  // Returns nullptr if the two run one after the other, as in eager steps. REQUIRES: they are a
  // pair of the schedule.
  const CompiledPair* pair(const pipeline::Action& forward, const pipeline::Action& backward) const;
  // Returns the position of a stage of this rank in `stages`.
  std::size_t index_of(std::int64_t stage) const;
  // Assigns the stages to the schedule's rank and chooses their slots. REQUIRES: its stages equal
  // `stages` up to names.
  void place(const PipelineSchedule& schedule);
  // Returns the bytes of all values that subgraphs save for each other, over all slots.
  std::int64_t saved_bytes() const;
  // Returns the peak bytes of received hidden states and gradients that are still needed.
  std::int64_t received_bytes() const;
};

// Compiles the subgraphs that the schedule's rank runs. `stages`: its stages, ascending.
CompiledPipeline compile_pipeline(const std::vector<StageFunctions>& stages, const PipelineSchedule& schedule,
                                  const CompileRequest& request, bool with_validation);

}  // namespace rondo

// Builds gradient accumulation: the function that adds a microbatch to the sums, and the update
// that applies them. The same functions serve the stages of a pipeline, where forward and backward
// of a microbatch run at different times.
#pragma once

#include <functional>
#include <optional>

#include "compiler/bodies/bodies.h"
#include "trainer/step/functions/step_parts.h"

namespace rondo {

// Forward and backward of one microbatch. The function of a stage is traced and then cut into
// subgraphs (compiler/bodies/bodies.h).
StepFunction make_accumulate(const StepContextPtr& step);

// Runs one subgraph of a stage eagerly, with all inputs of make_accumulate's function, and
// overwrites the inputs that the subgraph updates. It keeps the forward of a microbatch until its
// backward is done.
using EagerBody = std::function<void(ir::Body body, std::int64_t microbatch, const Tensors& inputs)>;
EagerBody make_eager_body(const StepContextPtr& stage);

// The last microbatch and the update in one function: the backward reduces each sum as soon as its
// gradient is added, so that the rest of the backward hides the reductions. The same bits as
// make_accumulate's function followed by make_update's.
StepFunction make_last(const StepContextPtr& step);

// Reduces the sums of a stage that reduced_sums declares. Empty if there are none.
std::optional<StepFunction> make_reduce(const StepContextPtr& stage);

// The update from the sums of all `stages`, which together are `step`. A whole model has a single
// stage. `stages_reduce`: make_reduce's functions run before it.
StepFunction make_update(const StepContextPtr& step, const std::vector<StepContextPtr>& stages,
                         bool stages_reduce);

}  // namespace rondo

// Builds gradient accumulation: the function that adds a microbatch to the sums, and the update
// that applies them. The same functions serve the stages of a pipeline, where forward and backward
// of a microbatch run at different times.
#pragma once

#include <functional>
#include <optional>

#include "compiler/bodies/bodies.h"
#include "trainer/step/functions/step_parts.h"

namespace rondo {

// Builds the forward and backward of one microbatch, "accumulate". The function of a stage has the
// stage's name; it is traced and then cut into subgraphs (compiler/bodies/bodies.h).
StepFunction make_accumulate(const StepContextPtr& step);

// Runs one subgraph of a stage eagerly, with all inputs of make_accumulate's function, and
// overwrites the inputs that the subgraph updates. It keeps the forward of a microbatch until its
// backward is done.
using EagerBody = std::function<void(ir::Body body, std::int64_t microbatch, const Tensors& inputs)>;
EagerBody make_eager_body(const StepContextPtr& stage);

// Builds "last": the last microbatch and the update in one function. Its backward reduces each sum
// as soon as its gradient is added, so that the rest of the backward hides the reductions. The bits
// are those of make_accumulate's function followed by make_update's.
StepFunction make_last(const StepContextPtr& step);

// Builds the function that reduces the sums of a stage that reduced_sums declares. Returns nullopt
// if there are none.
std::optional<StepFunction> make_reduce(const StepContextPtr& stage);

// Builds "update": the update from the sums of all `stages`, which together are `step`. A whole
// model has a single stage. `stages_reduce`: make_reduce's functions run before it.
StepFunction make_update(const StepContextPtr& step, const std::vector<StepContextPtr>& stages,
                         bool stages_reduce);

}  // namespace rondo

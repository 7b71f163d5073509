// A step of several microbatches: what each of them adds to the sums, and the update that reads these. Also
// those of a pipeline's stages, where forward and backward of a microbatch run at different times.
#pragma once

#include <functional>

#include "compiler/bodies/bodies.h"
#include "trainer/step/functions/step_parts.h"

namespace rondo {

// Forward and backward of one microbatch. A stage's is traced, and then cut (compiler/bodies/bodies.h).
StepFunction make_accumulate(const StepContextPtr& step);

// One body of a stage, called eagerly, with all inputs of make_accumulate's function. Those that the body
// updates it overwrites. It keeps the forward of a microbatch until its backward is done.
using EagerBody = std::function<void(ir::Body body, std::int64_t microbatch, const Tensors& inputs)>;
EagerBody make_eager_body(const StepContextPtr& stage);

// Of the sums of all `stages`, which together are `step`; of a whole model that is the only one.
StepFunction make_update(const StepContextPtr& step, const std::vector<StepContextPtr>& stages);

}  // namespace rondo

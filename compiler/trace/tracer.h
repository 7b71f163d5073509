// Records a step function as a graph: memory-less tensors run through forward, loss, backward and optimizer
// once, below autograd and functionalization, and every op that reaches the dispatcher becomes a node.
//
// Nothing is computed and no weight need exist. What cannot be recorded (an op without a shape rule, one that
// reads data on the host, a captured constant tensor) is Error(graph) naming op, module path and reason.
#pragma once

#include "compiler/ir/ir.h"
#include "compiler/trace/step_function.h"

namespace rondo {

ir::Graph trace(const StepFunction& function);

}  // namespace rondo

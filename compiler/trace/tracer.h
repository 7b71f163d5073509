// Traces a step function as a graph. Tensors without memory run through forward, loss, backward and
// optimizer once, below autograd and functionalization. Every op that reaches the dispatcher
// becomes a node.
//
// Nothing is computed, and no weight need exist. Throws Error(graph) with op, module path and
// reason for what a graph cannot have: an op without a shape rule, an op that reads data on the
// host, or a captured constant tensor.
#pragma once

#include "compiler/ir/ir.h"
#include "compiler/trace/step_function.h"

namespace rondo {

ir::Graph trace(const StepFunction& function);

}  // namespace rondo

// Checks that parameters keep their values: what is gathered, reduced and updated for a parameter
// belongs to it. Types of sharding cannot distinguish parameters of one type; owners can.
//
// A parameter owns itself, and moments and sums by their names ("exp_avg.layers.0.wq.weight").
// Other inputs that a step keeps own themselves. In a module with the name of a parameter, that
// parameter becomes whole and its gradient leaves the backward. So the values that such a module
// makes in the backward are the gradient of that parameter. Copies, views, casts, scales,
// collectives and sums pass the owner on, and a buffer has an owner for each of its parts, in their
// order. Other results have no owner.
//
// Refused are
//   a parameter in the module of another one, or read by a module other than its own that has a
//     parameter of that name ("ffn_norm.weight" by "attention_norm");
//   a gradient, moment, bias or new parameter in place of another one;
//   a gradient that replaces the sum to which it should be added;
//   an update that leaves its input unchanged, unless nothing reads the input.
//
// Not detected: gradients that are swapped before they reach the module of their parameter.
// Accepted: parameters that share one gradient, since a pass merged equal ones, and a parameter
// that takes the gradient of one without an update. Linear in the graph.
#pragma once

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A rule of the verifier. Throws VerifyError.
void parameters_keep_their_places(const Graph& graph);

}  // namespace rondo::ir

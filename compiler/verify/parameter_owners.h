// Whose a value is: that what is gathered, reduced and updated as one parameter's is that parameter's. Types
// of sharding cannot tell parameters of one type from each other; this can.
//
// A parameter is its own, moments and sums are its by their names ("exp_avg.layers.0.wq.weight"), and other
// inputs that a step keeps are their own. A module that is named as a parameter is where that parameter
// becomes whole, and where its gradient leaves the backward, so what such a module makes in the backward is
// the gradient of that parameter. Copies, views, casts, scales, collectives and sums hand the owner on, and a
// buffer has an owner for each of its parts, in their order. What anything else makes is nobody's.
//
// Refused: a parameter in the module of another one, or read by a module beside its own that has one of that
// name ("ffn_norm.weight" by "attention_norm"); a gradient, moment, bias or new parameter in the place of
// another one; a gradient that replaces the sum that it should be added to; an update that is none. Not seen:
// gradients that change places before they reach the module of their parameter. Parameters that share one
// gradient, since a pass has found that theirs are equal, are taken for what they are; so is one that takes
// the gradient of a parameter which nothing updates. Linear in the graph.
#pragma once

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A rule of the verifier. Throws VerifyError.
void parameters_keep_their_places(const Graph& graph);

}  // namespace rondo::ir

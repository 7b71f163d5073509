// Cuts the joint graph of a pipeline stage (forward, backward, sums of gradients) into bodies:
// graphs that run at different times of a step, once for each microbatch. Plain C++.
//
// A value that one body makes and a later one reads becomes an input of kind `saved`, which the
// first updates and the second reads. Views are not saved: their readers recreate them at no cost.
// Inputs of the joint graph, including the batch of a microbatch, stay inputs of the bodies that
// read them. So every order of bodies that goes forward in each microbatch gives the bits of the
// joint graph, run microbatch by microbatch.
//
//   unshard           values that depend on parameters alone: gathers, casts; once for all
//                     microbatches
//   unshard_forward   the same and the forward of the first microbatch, which computes while
//                     weights are gathered
//   forward
//   backward          the whole backward, or the next two (Qi et al., "Zero Bubble Pipeline
//                     Parallelism", 2024, arXiv 2401.10241)
//   backward_input    the gradient of the stage's input, so that the previous stage need not wait
//                     for the gradients of weights
//   backward_weight   the rest
//   last_backward     the backward or backward_weight of the last microbatch, chained with the
//                     reduction of the gradient sums (merge.h); not cut
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

enum class Body : std::uint8_t {
  unshard,
  unshard_forward,
  forward,
  backward,
  backward_input,
  backward_weight,
  last_backward
};
std::string_view name_of(Body body);  // "backward_input"

// Prefixes of the inputs that pass values between bodies: of all microbatches; of one microbatch
// from its forward on; and of one from its backward_input to its backward_weight.
inline constexpr std::string_view kUnsharded = "unsharded.", kSaved = "saved.", kPending = "pending.";

struct CutOptions {
  bool unshard = false;          // as a body of its own
  bool unshard_forward = false;  // also with a forward; requires `unshard`
  bool whole_backward = true, divided_backward = false;
  // Makes backward_weight recompute cheap values where that leaves fewer bytes pending. The choice
  // is a minimum cut. Its sink are the values that backward_weight reads. Its sources are results
  // of backward_input from expensive ops (compiler/analysis/memory_policy.h), collectives and
  // random ops.
  bool recompute_pending = false;
  // Name of the output with the gradient of the stage's input. If it is empty or unknown, no stage
  // needs the gradient, and backward_weight is the whole backward.
  std::string input_gradient = {};
};

struct BodyGraph {
  Body body;
  Graph graph;  // "JOINT.forward"
};

// Returns the bodies in enumeration order, without empty ones. REQUIRES: `joint` is verified, has
// no overwrites, and has no transfers that start and end in different phases.
std::vector<BodyGraph> cut_into_bodies(const Graph& joint, const CutOptions& options);

}  // namespace rondo::ir

// The joint graph of a pipeline stage (forward, backward, sums of gradients) cut into bodies: graphs that run
// at different times of a step, once for each microbatch. Plain C++.
//
// What one body makes and a later one reads becomes an input of kind `saved`, which the one updates and the
// other reads. Views are not saved: who reads one makes it again, which costs nothing. Inputs of the joint
// graph stay inputs of the bodies that read them, the batch of a microbatch, too. So any order of bodies that
// goes forward in each microbatch gives the bits of the joint graph, run microbatch by microbatch.
//
//   unshard           what follows from parameters alone: gathers, casts; once for all microbatches
//   forward
//   backward          the whole, or in two: the gradient of the stage's input, then what is left,
//   backward_input    so that the stage before need not wait for the gradients of weights
//   backward_weight   (Qi et al., "Zero Bubble Pipeline Parallelism", 2024, arXiv 2401.10241)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

enum class Body : std::uint8_t { unshard, forward, backward, backward_input, backward_weight };
std::string_view name_of(Body body);  // "backward_input"

// How the inputs are called through which bodies hand on values: of all microbatches; of one, from its
// forward on; and of one from its backward_input to its backward_weight.
inline constexpr std::string_view kUnsharded = "unsharded.", kSaved = "saved.", kPending = "pending.";

struct CutOptions {
  bool unshard = false;  // apart from the forward
  bool whole_backward = true, divided_backward = false;
  // backward_weight computes again what is cheap, where fewer bytes are pending then: a minimum cut between
  // what it reads and what backward_input makes by expensive ops (compiler/analysis/memory_policy.h), by
  // collectives and by chance.
  bool recompute_pending = false;
  // The output that brings the gradient of the stage's input; empty, or none of this name: nobody wants one,
  // so that backward_weight is the whole.
  std::string input_gradient = {};
};

struct BodyGraph {
  Body body;
  Graph graph;  // "JOINT.forward"
};

// In the order of the enumeration; without those that have nothing to do. `joint`: verified, without
// overwrites, and without transfers that end in another phase than they begin.
std::vector<BodyGraph> cut_into_bodies(const Graph& joint, const CutOptions& options);

}  // namespace rondo::ir

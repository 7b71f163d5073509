// Merges two bodies into one graph: a forward and a backward of different microbatches, each of
// which then computes while the other communicates, once passes/overlap_microbatches.cpp has
// ordered their nodes; or a body and the one after it. Plain C++.
#pragma once

#include <string>
#include <string_view>

#include "compiler/bodies/bodies.h"

namespace rondo::ir {

// Returns the nodes of `forward`, then those of `backward`, then the sums of both. A common input,
// such as a parameter, is one input. Inputs of kinds `batch` and `saved` belong to a microbatch, so
// each body has its own, named by name_in_pair.
Graph merge_bodies(const Graph& forward, const Graph& backward);

// Returns the nodes of `first` and those of `second`, which reads what `first` writes to a common
// input. Nodes of `second` that belong to the backward come right after their last operand, so a
// reduction of a gradient begins once the gradient is complete. REQUIRES: no input that both write.
Graph chain_bodies(const Graph& first, const Graph& second);

// Returns "forward.tokens" or "backward.tokens".
std::string name_in_pair(bool of_forward, std::string_view name);
// Inverts name_in_pair. REQUIRES: a result of name_in_pair.
struct NameInPair {
  bool of_forward = true;
  std::string name;
};
NameInPair read_name_in_pair(std::string_view name);

}  // namespace rondo::ir

// Activation checkpointing of a block: its forward keeps only its input, and results of ops that are asked
// for; its backward computes the block again first. (Chen et al., "Training Deep Nets with Sublinear Memory
// Cost", 2016.) Bit for bit the same results. A backward in several parts, all but the last of which retain
// the graph, computes the block again in each, and keeps input and results until the last.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "models/parts/kept_results.h"

namespace rondo {

// block(x). `leaves`: every tensor besides x that the block reads and that wants a gradient. `keeps`: of
// which ops the results are kept; nullptr: of none. REQUIRES: whatever `block` refers to outlives the
// backward; random ops only where their results are kept.
at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& x,
                      const std::vector<at::Tensor>& leaves, KeepsResults keeps = nullptr);

}  // namespace rondo

// Activation checkpointing of a block (Chen et al., "Training Deep Nets with Sublinear Memory
// Cost", 2016). The forward keeps only its input and the results of selected ops. The backward
// first recomputes the block, with bitwise equal results. A backward in several parts recomputes
// the block in each part. All parts but the last retain the graph; input and results are kept until
// the last.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "models/parts/kept_results.h"

namespace rondo {

// Returns block(x). `leaves`: all tensors besides x that the block reads and that require a
// gradient. `keeps`: selects the ops whose results are kept; nullptr: none. REQUIRES: everything
// that `block` refers to outlives the backward; the results of random ops are kept.
at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& x,
                      const std::vector<at::Tensor>& leaves, KeepsResults keeps = nullptr);

}  // namespace rondo

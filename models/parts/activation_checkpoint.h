// Activation checkpointing of a block: its forward keeps only its input, its backward computes the block
// again first. (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.) Bit for bit the same
// results.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace rondo {

// block(x). `leaves`: every tensor besides x that the block reads and that wants a gradient.
// REQUIRES: whatever `block` refers to outlives the backward; it draws no random numbers.
at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& x,
                      const std::vector<at::Tensor>& leaves);

}  // namespace rondo

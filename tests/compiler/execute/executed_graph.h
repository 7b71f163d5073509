// Helpers of tests that execute random graphs: a group for collectives, inputs, and comparison by
// bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo {

// Registers the group "dp" of two ranks with equal contributions. Once a process.
void register_twin_group();

// Returns one tensor per input of the graph; those of kind optimizer are not negative.
std::vector<at::Tensor> random_inputs(const ir::Graph& graph, std::uint64_t seed);
std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors);

// Compares bit for bit; all nans are equal.
bool is_same(const at::Tensor& a, const at::Tensor& b);

}  // namespace rondo

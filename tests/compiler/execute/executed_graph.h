// What tests share that execute random graphs: a group for their collectives, inputs, and comparison by bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo {

// Registers the group "dp" of two ranks, of which the other holds the same as this one. Once a process.
void meet_twin();

// One tensor per input of the graph; those of kind optimizer are not negative.
std::vector<at::Tensor> random_inputs(const ir::Graph& graph, std::uint64_t seed);
std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors);

// Bit for bit, but that one nan is as good as another.
bool is_same(const at::Tensor& a, const at::Tensor& b);

}  // namespace rondo

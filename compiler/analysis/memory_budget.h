// The memory policy `budget`: saves the values that save the most time per byte, up to a number
// of bytes.
//
// A knapsack filled greedily. Nodes at the same position of equal blocks are one class. A class is
// taken completely if it fits, or else for the last blocks, whose values have the shortest
// lifetimes. Times are the roofline of a device (cost_model.h).
#pragma once

#include "compiler/analysis/forward_values.h"
#include "compiler/analysis/memory_policy.h"

namespace rondo::ir {

// The budget is options.memory_budget_gib, or else full plus the share
// options.memory_budget of what policy none saves beyond full. Throws Error(config) if even
// full saves more than memory_budget_gib.
MemoryDecision fill_budget(const Graph& graph, const ForwardValues& forward, const CompileOptions& options);

}  // namespace rondo::ir

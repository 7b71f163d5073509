// The memory policy `budget`: up to a number of kept bytes, what saves the most time per byte.
//
// A knapsack filled greedily. Nodes that stand in the same place of equal blocks are one class, taken whole
// while it fits, else for the last blocks, whose values live the shortest. Times are the roofline of a device
// (cost_model.h).
#pragma once

#include "compiler/analysis/forward_values.h"
#include "compiler/analysis/memory_policy.h"

namespace rondo::ir {

// The budget is options.memory_budget_gib, or the share options.memory_budget of what policy none keeps
// beyond full. Throws Error(config) if even full keeps more than memory_budget_gib.
MemoryDecision fill_budget(const Graph& graph, const ForwardValues& forward, const CompileOptions& options);

}  // namespace rondo::ir

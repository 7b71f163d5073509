// How many kernels, copies and fills a GPU gets for a node: what a recorded step consists of. An op is one as
// a rule; ops of ours that take a list take one for as many tensors as fit into a kernel's parameters, and
// sums over rows a second one for the sum of their parts. Plain C++, pure.
//
// Left out is what depends on a library's choice of kernels: helpers of an attention backward beyond its
// three kernels, a fill before a sum that takes several blocks for an element, the copy of a result that a
// kernel put elsewhere. A recorded step has 7 to 25 % more for these (docs/results/launches_2026-11-22.md).
#pragma once

#include <cstdint>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// 0 for views, waits and allocations.
std::int64_t launches(const Graph& graph, const Node& node);

}  // namespace rondo::ir

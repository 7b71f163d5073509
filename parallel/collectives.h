// Collectives as dispatcher ops (`_c10d_functional.*`), so a trace records them as nodes. Each call
// starts a collective and waits for it. With one rank in the group, it returns its operand.
// REQUIRES with several ranks: the operand is contiguous, and the group's name is registered.
//
// The shape rules for tracing are Meta kernels in collectives.cpp. A trace needs no process group.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/mesh.h"

namespace rondo {

// Gathers [k, ...] of each rank into [ranks * k, ...], in rank order.
at::Tensor all_gather(const at::Tensor& shard, const AxisGroup& group);
// Sums [ranks * k, ...] over the ranks and returns this rank's block [k, ...].
at::Tensor reduce_scatter_sum(const at::Tensor& full, const AxisGroup& group);
// Sends block r of k rows of [ranks * k, ...] to rank r. Block s of the result is from rank s.
at::Tensor all_to_all(const at::Tensor& pieces, const AxisGroup& group);
// Returns the sum or the maximum over the ranks, of any shape. All ranks get the same bits.
at::Tensor all_reduce_sum(const at::Tensor& tensor, const AxisGroup& group);
at::Tensor all_reduce_max(const at::Tensor& tensor, const AxisGroup& group);

// The same with autograd, for operands of any layout. Each is the other's backward. REQUIRES:
// several ranks.
at::Tensor all_gather_autograd(const at::Tensor& shard, const AxisGroup& group);
at::Tensor reduce_scatter_autograd(const at::Tensor& full, const AxisGroup& group);

}  // namespace rondo

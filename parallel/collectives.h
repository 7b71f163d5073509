// Collectives as dispatcher ops (`_c10d_functional.*`), so that a trace records them as nodes. Each call here
// is a start and its wait. With one rank in the group there is nothing to do, and the tensor itself comes
// back; else tensors are contiguous, and the group's name is that of a registered process group.
//
// Shape rules for tracing stand in collectives.cpp as Meta kernels; while tracing, no group need be alive.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/mesh.h"

namespace rondo {

// [k, ...] on each rank -> [ranks * k, ...], by rank.
at::Tensor all_gather(const at::Tensor& shard, const AxisGroup& group);
// [ranks * k, ...] on each rank -> [k, ...]: the sum over the ranks of the k rows that are this rank's.
at::Tensor reduce_scatter_sum(const at::Tensor& full, const AxisGroup& group);
// [ranks * k, ...]: the k rows r to rank r; then those from rank s in place s.
at::Tensor all_to_all(const at::Tensor& pieces, const AxisGroup& group);
// Any shape; the sum over the ranks, the same bits on all of them.
at::Tensor all_reduce_sum(const at::Tensor& tensor, const AxisGroup& group);
at::Tensor all_reduce_max(const at::Tensor& tensor, const AxisGroup& group);

// With autograd, and for operands of any layout. Each is the other's backward.
at::Tensor all_gather_autograd(const at::Tensor& shard, const AxisGroup& group);
at::Tensor reduce_scatter_autograd(const at::Tensor& full, const AxisGroup& group);

}  // namespace rondo

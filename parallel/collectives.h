// Collectives as dispatcher ops (`_c10d_functional.*`), so that a trace records them as nodes. Each call here
// is a start and its wait. Tensors are contiguous; `group` is the name of a registered process group of
// `ranks` ranks.
//
// Shape rules for tracing stand in collectives.cpp as Meta kernels; while tracing, no group need be alive.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace rondo {

// [k, ...] on each rank -> [ranks * k, ...], by rank.
at::Tensor all_gather(const at::Tensor& shard, std::int64_t ranks, const std::string& group);
// [ranks * k, ...] on each rank -> [k, ...]: the sum over the ranks of the k rows that are this rank's.
at::Tensor reduce_scatter_sum(const at::Tensor& full, std::int64_t ranks, const std::string& group);
// Any shape; the sum over the ranks, the same bits on all of them.
at::Tensor all_reduce_sum(const at::Tensor& tensor, const std::string& group);
at::Tensor all_reduce_max(const at::Tensor& tensor, const std::string& group);

}  // namespace rondo

// Rows to the ranks that have their experts, by exact counts, and back (all-to-all). The one op of a step in
// which the host reads what a device computed: how much goes to whom.
//
//   rondo::all_to_all_tokens(rows, offered, sent, received, back, result_rows, group)
//     int32 [n] each, of n ranks: how many rows this rank has for rank p; how many of them go, the first
//     ones; how many come from p
//     back = false   rows [N, D] by rank -> [result_rows, D]: what comes, by rank, and zeros
//     back = true    the other way: rows [R, D] -> [result_rows, D], which is N; zeros where nothing went
//
// So nobody receives what it has no room for. All ranks of the group call it in the same order, with counts
// that fit each other. Rows of any dtype move as bytes; the result has the dtype of rows and is contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace rondo {

struct RowCounts {
  at::Tensor offered, sent, received;
};

// With autograd: the gradient goes the other way. Throws Error(internal) where `offered` does not add up to
// the rows, less is offered than sent, or more comes than has room.
at::Tensor all_to_all_tokens(const at::Tensor& rows, const RowCounts& counts, bool back,
                             std::int64_t result_rows, const std::string& group);

// The op with counts on the host, for kernels of every device: on CUDA everything is issued on the current
// stream.
at::Tensor all_to_all_by_counts(const at::Tensor& rows, const RowCounts& on_host, bool back,
                                std::int64_t result_rows, const std::string& group);

}  // namespace rondo

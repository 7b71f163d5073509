// Sends rows to the ranks of their experts by exact counts, and back (all-to-all). The only op of a
// step whose device results, the counts, are read on the host.
//
//   rondo::all_to_all_tokens(rows, offered, sent, received, back, result_rows, group)
//     offered, sent, received: int32 [n] each, for n ranks: rows that this rank has for rank p; how
//     many of them, the first ones, are sent; rows received from p
//     back = false   rows [N, D] by rank -> [result_rows, D]: received rows by rank, then zeros
//     back = true    the reverse: rows [R, D] -> [result_rows, D] with result_rows = N; zeros for
//                    rows that were not sent
//
// So no rank receives more rows than it has room for. All ranks of the group call it in the same
// order, with matching counts. Rows of any dtype are sent as bytes. The result has the dtype of
// rows and is contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace rondo {

struct RowCounts {
  at::Tensor offered, sent, received;
};

// Differentiable: the gradient is sent in the reverse direction. Throws Error(internal) if
// `offered` does not add up to the number of rows, `sent` exceeds `offered`, or the received rows
// exceed the room.
at::Tensor all_to_all_tokens(const at::Tensor& rows, const RowCounts& counts, bool back,
                             std::int64_t result_rows, const std::string& group);

// The op with counts on the host, for the kernels of every device. On CUDA all work is issued on
// the current stream.
at::Tensor all_to_all_by_counts(const at::Tensor& rows, const RowCounts& on_host, bool back,
                                std::int64_t result_rows, const std::string& group);

}  // namespace rondo

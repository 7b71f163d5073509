// Rows to the ranks that have their experts, by exact counts, and back (all-to-all). The one op of a step in which the
// host reads what a device computed: how much goes to whom.
//
//   rondo::all_to_all_tokens(rows, sent, received, back, result_rows, group)
//     sent [n, E] int32: rows of this rank for expert e of rank p; received [n, E]: those that come from rank p for
//     this rank's expert e; n ranks, E experts each.
//     back = false   rows [N, D] by rank and then by expert -> [result_rows, D] by expert and then by rank
//     back = true    the other way; result_rows is N
//
// What comes behind result_rows is left out, and stays out on the way back, where its rows are zeros; so are rows that
// nobody fills. All ranks of the group call it in the same order, with counts that fit each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace rondo {

// With autograd: the gradient goes the other way. REQUIRES: `sent` and `received` are contiguous.
at::Tensor all_to_all_tokens(const at::Tensor& rows, const at::Tensor& sent, const at::Tensor& received,
                             bool back, std::int64_t result_rows, const std::string& group);

}  // namespace rondo

// Rows to the ranks that have their experts, by exact counts, and back (all-to-all). The one op of a step in
// which the host reads what a device computed: how much goes to whom.
//
//   rondo::all_to_all_tokens(rows, sent, received, back, result_rows, group)
//     sent [n, E] int32: rows of this rank for expert e of rank p; received [n, E]: those that come from rank
//     p for this rank's expert e; n ranks, E experts each. back = false   rows [N, D] by rank and then by
//     expert -> [result_rows, D] by expert and then by rank back = true    the other way; result_rows is N
//
// What comes behind result_rows is left out, and stays out on the way back, where its rows are zeros; so are
// rows that nobody fills. All ranks of the group call it in the same order, with counts that fit each other.
// Rows of any dtype move as bytes; the result has the dtype of rows and is contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// With autograd: the gradient goes the other way. REQUIRES: `sent` and `received` are contiguous. Throws
// Error(internal) where `sent` does not add up to the rows.
at::Tensor all_to_all_tokens(const at::Tensor& rows, const at::Tensor& sent, const at::Tensor& received,
                             bool back, std::int64_t result_rows, const std::string& group);

// --- for the kernels of every device ---

// Rows that lie together in both orders, by rank and by expert.
struct AllToAllRun {
  std::int64_t by_rank = 0, by_expert = 0, rows = 0;
};

// What a call moves, worked out on the host.
struct AllToAllPlan {
  std::vector<std::int64_t> to_others, from_others;  // rows for each rank and of each, on the way there
  std::int64_t rows_from_others = 0;                 // their sum
  std::vector<AllToAllRun> runs;                     // without the rows that are left out
};

// sent and received [ranks, experts]; `rows` and `result_rows` as in the op.
AllToAllPlan plan_all_to_all(const std::int32_t* sent, const std::int32_t* received, std::int64_t ranks,
                             std::int64_t experts, bool back, std::int64_t rows, std::int64_t result_rows);

}  // namespace rondo

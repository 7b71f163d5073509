// Rows of tokens, gathered for experts and added up again. Shapes are static, no result depends on the number of
// threads, nothing is added atomically, and the host reads nothing: how many rows count stays on the device.
//
// Each of T tokens has K slots; slot t * K + k is token t's k-th expert. `order` says which slot a row is of, `place`
// in which row a slot is. Rows from `count` on (int32 [], all of them where it is absent) are never read and come out
// as zeros; a slot whose place is at or behind `count` has no row.
//
//   rondo::permute_tokens(x, order, count, copies, scores)   x [T, D], order int64 [R], scores [T, K] or absent -> [R, D]
//     row r is x[order[r] / copies], times the score of slot order[r] where there are scores
//   rondo::unpermute_tokens(rows, place, count, scores)         rows [R, D], place int64 [T, K] -> [T, D]
//     the sum over a token's slots of their rows, times their scores, in the order of the slots
//   rondo::dot_rows(rows, x, place, count)              -> [T, K]
//     the product of each slot's row with its token's row of x [T, D]: what a score's gradient is
//
// x and rows: fp32, bf16 or fp64. Scores and what is summed: fp32, or fp64 for fp64; permute_tokens rounds once.
// The three are each other's derivatives: parallel/expert_parallel.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace rondo {

using MaybeTensor = std::optional<at::Tensor>;

// No autograd.
at::Tensor permute_tokens(const at::Tensor& x_TD, const at::Tensor& order_R, const MaybeTensor& count,
                          std::int64_t copies, const MaybeTensor& scores_TK = {});
at::Tensor unpermute_tokens(const at::Tensor& rows_RD, const at::Tensor& place_TK, const MaybeTensor& count,
                            const MaybeTensor& scores_TK = {});
at::Tensor dot_rows(const at::Tensor& rows_RD, const at::Tensor& x_TD, const at::Tensor& place_TK,
                    const MaybeTensor& count);

}  // namespace rondo

// Gathers rows of tokens for experts and sums them again. Shapes are static, no result depends on
// the number of threads, no addition is atomic, and the host reads nothing: the number of valid
// rows stays on the device.
//
// Each of T tokens has K slots; slot t * K + k is token t's k-th expert. `order` maps rows to
// slots, `place` slots to rows. Rows from `count` on (int32 []; absent: all rows are valid) are
// never read and are zero in results. A slot whose place is `count` or greater has no row.
//
// `addend`, absent or of the shape and dtype of x or rows, is added to them first, and the sum is
// rounded to their dtype. So the bits are those of x + addend in place of x.
//
//   rondo::permute_tokens(x, order, count, copies, scores, addend) -> [R, D]
//     x [T, D], order int64 [R], scores [T, K] or absent; copies is K
//     row r is x[order[r] / copies], times the score of slot order[r] if there are scores
//   rondo::unpermute_tokens(rows, place, count, scores, narrow, addend) -> [T, D]
//     rows [R, D], place int64 [T, K]
//     the sum over a token's slots of their rows, times their scores, in the order of the slots;
//     with `narrow`, rounded once to the dtype of rows
//   rondo::sum_pieces(x, pieces, group) -> [N / pieces, D]
//     x [N, D] of equal pieces, one from each rank of an all-to-all of partial sums
//     the sum of the pieces in their order. `group` is the group of the ranks; only the verifier
//     uses it
//   rondo::dot_rows(rows, x, place, count) -> [T, K]
//     the dot product of each slot's row and its token's row of x [T, D]: the gradient of a score
//   rondo::order_by_expert(counts, rows, group) -> (order, place), int64 [R] each; R is `rows`
//     counts int32 [n, E], at most R in total: the number of rows from rank p for expert e
//     For rows ordered by rank and then by expert: row order[r] is the r-th by expert and then by
//     rank, and row r is the place[r]-th. Rows after the received ones keep their place. `group` is
//     the group of the ranks; only the verifier uses it.
//
// x and rows are f32, bf16 or f64. Scores and sums are f32, or f64 for f64. permute_tokens and
// sum_pieces round once, to the dtype of x. Results are contiguous. permute_tokens,
// unpermute_tokens and dot_rows are each other's derivatives: parallel/expert_parallel.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace rondo {

using MaybeTensor = std::optional<at::Tensor>;

// Not differentiable.
at::Tensor permute_tokens(const at::Tensor& x_TD, const at::Tensor& order_R, const MaybeTensor& count,
                          std::int64_t copies, const MaybeTensor& scores_TK = {},
                          const MaybeTensor& addend_TD = {});
at::Tensor unpermute_tokens(const at::Tensor& rows_RD, const at::Tensor& place_TK, const MaybeTensor& count,
                            const MaybeTensor& scores_TK = {}, bool narrow = false,
                            const MaybeTensor& addend_RD = {});
// REQUIRES: `pieces` divides the rows of x.
at::Tensor sum_pieces(const at::Tensor& x_ND, std::int64_t pieces, std::string_view group);
at::Tensor dot_rows(const at::Tensor& rows_RD, const at::Tensor& x_TD, const at::Tensor& place_TK,
                    const MaybeTensor& count);

struct RowOrder {
  at::Tensor order_R, place_R;
};
RowOrder order_by_expert(const at::Tensor& counts, std::int64_t rows, std::string_view group);

// Allocate the uninitialized results, for the kernels of every device and the shape rules.
// Check the addend.
at::Tensor permute_tokens_result(const at::Tensor& x_TD, const at::Tensor& order_R,
                                 const MaybeTensor& addend_TD);
at::Tensor unpermute_tokens_result(const at::Tensor& rows_RD, const at::Tensor& place_TK, bool narrow,
                                   const MaybeTensor& addend_RD);
at::Tensor sum_pieces_result(const at::Tensor& x_ND, std::int64_t pieces);
at::Tensor dot_rows_result(const at::Tensor& rows_RD, const at::Tensor& place_TK);
std::tuple<at::Tensor, at::Tensor> order_by_expert_results(const at::Tensor& counts, std::int64_t rows);
// Returns an optional operand with contiguous memory.
MaybeTensor contiguous(const MaybeTensor& x);

}  // namespace rondo

#include "ops/permute_tokens/permute_tokens_cuda.h"

#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/permute_tokens/permute_tokens.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

const std::int32_t* count_of(const MaybeTensor& count) {
  return count ? count->const_data_ptr<std::int32_t>() : nullptr;
}
const void* data_of(const MaybeTensor& x) { return x ? x->const_data_ptr() : nullptr; }

Tensor permute_tokens_cuda(const Tensor& x_TD, const Tensor& order_R, const MaybeTensor& count,
                           std::int64_t copies, const MaybeTensor& scores_TK, const MaybeTensor& addend_TD) {
  const cuda::Launch launch(x_TD, "permute_tokens");
  const Tensor x = x_TD.contiguous(), order = order_R.contiguous();
  const MaybeTensor scores = contiguous(scores_TK), addend = contiguous(addend_TD);
  const Tensor result = permute_tokens_result(x, order, addend);
  if (result.numel() == 0) return result;
  cuda::permute_tokens(launch.element(x), x.const_data_ptr(), data_of(addend),
                       order.const_data_ptr<std::int64_t>(), count_of(count), data_of(scores),
                       result.mutable_data_ptr(), order.size(0), x.size(1), x.size(0) * copies, copies,
                       launch.stream());
  launch.check();
  return result;
}

Tensor unpermute_tokens_cuda(const Tensor& rows_RD, const Tensor& place_TK, const MaybeTensor& count,
                             const MaybeTensor& scores_TK, bool narrow, const MaybeTensor& addend_RD) {
  const cuda::Launch launch(rows_RD, "unpermute_tokens");
  const Tensor rows = rows_RD.contiguous(), place = place_TK.contiguous();
  const MaybeTensor scores = contiguous(scores_TK), addend = contiguous(addend_RD);
  const Tensor result = unpermute_tokens_result(rows, place, narrow, addend);
  if (result.numel() == 0) return result;
  cuda::unpermute_tokens(launch.element(rows), rows.const_data_ptr(), data_of(addend),
                         place.const_data_ptr<std::int64_t>(), count_of(count), data_of(scores), narrow,
                         result.mutable_data_ptr(), place.size(0), place.size(1), rows.size(0), rows.size(1),
                         launch.stream());
  launch.check();
  return result;
}

Tensor sum_pieces_cuda(const Tensor& x_ND, std::int64_t pieces, std::string_view) {
  const cuda::Launch launch(x_ND, "sum_pieces");
  const Tensor x = x_ND.contiguous(), result = sum_pieces_result(x, pieces);
  if (result.numel() == 0) return result;
  cuda::sum_pieces(launch.element(x), x.const_data_ptr(), result.mutable_data_ptr(), pieces, result.numel(),
                   launch.stream());
  launch.check();
  return result;
}

Tensor dot_rows_cuda(const Tensor& rows_RD, const Tensor& x_TD, const Tensor& place_TK,
                     const MaybeTensor& count) {
  const cuda::Launch launch(rows_RD, "dot_rows");
  const Tensor rows = rows_RD.contiguous(), x = x_TD.contiguous(), place = place_TK.contiguous();
  RONDO_ASSERT(rows.scalar_type() == x.scalar_type(), "dot_rows: rows and x must have one dtype");
  const Tensor result = dot_rows_result(rows, place);
  if (result.numel() == 0) return result;
  cuda::dot_rows(launch.element(rows), rows.const_data_ptr(), x.const_data_ptr(),
                 place.const_data_ptr<std::int64_t>(), count_of(count), result.mutable_data_ptr(),
                 place.numel(), place.size(1), rows.size(0), rows.size(1), launch.stream());
  launch.check();
  return result;
}

std::tuple<Tensor, Tensor> order_by_expert_cuda(const Tensor& some_counts, std::int64_t rows,
                                                std::string_view) {
  const cuda::Launch launch(some_counts, "order_by_expert");
  const Tensor counts = some_counts.contiguous();
  auto results = order_by_expert_results(counts, rows);
  cuda::order_by_expert(counts.const_data_ptr<std::int32_t>(), counts.size(0), counts.size(1), rows,
                        std::get<0>(results).mutable_data_ptr<std::int64_t>(),
                        std::get<1>(results).mutable_data_ptr<std::int64_t>(), launch.stream());
  launch.check();
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("permute_tokens", &permute_tokens_cuda);
  m.impl("unpermute_tokens", &unpermute_tokens_cuda);
  m.impl("sum_pieces", &sum_pieces_cuda);
  m.impl("dot_rows", &dot_rows_cuda);
  m.impl("order_by_expert", &order_by_expert_cuda);
}

}  // namespace rondo

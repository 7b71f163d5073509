#include "parallel/sharding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>

#include "parallel/grouped_mm.h"
#include "parallel/permute_rows.h"

namespace rondo {

using at::Tensor;

Tensor Weights::linear(const Tensor& x) const { return at::linear(x, get("weight")); }

Tensor Weights::grouped_linear(const Tensor& x, const Tensor& ends_E) const {
  return rondo::grouped_linear(x, get("weight"), ends_E);
}

Tensor Weights::lookup(const Tensor& embedding_VD, const Tensor& ids_BT) const {
  return at::embedding(embedding_VD, ids_BT.reshape({-1}));
}

Dispatched Weights::dispatch(const Tensor& x_TD, const Tensor& experts_TK,
                             const Tensor& tokens_per_expert) const {
  const Tensor slots_N = experts_TK.view({-1});
  const Tensor order_N = std::get<1>(at::sort(slots_N, /*stable=*/true, 0, /*descending=*/false));
  const Tensor place_N = at::argsort(order_N, /*stable=*/true, 0);
  return {permute_rows(x_TD, experts_TK.size(1), order_N, place_N),
          at::cumsum(tokens_per_expert, 0, at::kInt),
          {},
          {order_N, place_N}};
}

Tensor Weights::combine(const Tensor& rows_RD, const Dispatched& dispatched, const Tensor& scores_TK) const {
  const Tensor &order_N = dispatched.way_back[0], &place_N = dispatched.way_back[1];
  const Tensor slots_ND = permute_rows(rows_RD, 1, place_N, order_N);
  const Tensor slots_TKD =
      slots_ND.view({scores_TK.size(0), scores_TK.size(1), rows_RD.size(1)}).to(at::kFloat);
  return at::sum(slots_TKD * scores_TK.unsqueeze(-1), at::IntArrayRef{1}).to(rows_RD.scalar_type());
}

}  // namespace rondo

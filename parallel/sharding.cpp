#include "parallel/sharding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include "ops/grouped_mm/grouped_mm.h"
#include "parallel/expert_parallel.h"

namespace rondo {

using at::Tensor;

Tensor Weights::linear(const Tensor& x) const { return at::linear(x, get("weight")); }

Tensor Weights::grouped_linear(const Tensor& x, const Tensor& ends_E) const {
  return rondo::grouped_linear(x, get("weight"), ends_E);
}

Tensor Weights::grouped_product(const Tensor& x, const Tensor& ends_E) const {
  return rondo::grouped_linear(x, get("weight").transpose(1, 2), ends_E);
}

Tensor Weights::lookup(const Tensor& embedding_VD, const Tensor& ids_BT) const {
  return at::embedding(embedding_VD, ids_BT.reshape({-1}));
}

Tensor Weights::attend(const AttentionOperands& own) const { return attention(own); }

Dispatched Weights::dispatch(const Tensor& x_TD, const Tensor& experts_TK,
                             const Tensor& tokens_per_expert) const {
  return dispatch_tokens(x_TD, experts_TK, tokens_per_expert, {});
}

Tensor Weights::combine(const Tensor& rows_RD, const Dispatched& dispatched, const Tensor& scores_TK) const {
  return combine_rows(rows_RD, dispatched, scores_TK, {});
}

}  // namespace rondo

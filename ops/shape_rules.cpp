// Shape rules (Meta kernels) that LibTorch 2.11 has only in Python, for the ops that our models and optimizer
// reach.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// The dispatcher passes symbolic sizes by value.
// NOLINTBEGIN(performance-unnecessary-value-param)
Tensor embedding(const Tensor& weight_VD, const Tensor& ids, c10::SymInt, bool, bool) {
  std::vector<std::int64_t> sizes = ids.sizes().vec();
  sizes.push_back(weight_VD.size(1));
  return at::empty(sizes, weight_VD.options());
}

Tensor embedding_dense_backward(const Tensor& grad, const Tensor&, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty({rows.expect_int(), grad.size(-1)}, grad.options());
}
// NOLINTEND(performance-unnecessary-value-param)

Tensor index_select(const Tensor& self, std::int64_t dim, const Tensor& index) {
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes.at(static_cast<std::size_t>(at::maybe_wrap_dim(dim, self.dim()))) = index.numel();
  return at::empty(sizes, self.options());
}

// In place: there is nothing to infer, and nothing to write.
void fused_adam_(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                 at::TensorList, const Tensor&, double, double, double, double, bool, bool,
                 const std::optional<Tensor>&, const std::optional<Tensor>&) {}

using FusedResult = std::tuple<Tensors, Tensors, Tensors, Tensors, Tensors>;
FusedResult fused_adam(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs,
                       at::TensorList exp_avg_sqs, at::TensorList max_exp_avg_sqs, at::TensorList,
                       const Tensor&, double, double, double, double, bool, bool,
                       const std::optional<Tensor>&, const std::optional<Tensor>&) {
  const auto like = [](at::TensorList list) {
    Tensors result;
    for (const Tensor& tensor : list) result.push_back(at::empty_like(tensor));
    return result;
  };
  return {like(self), like(grads), like(exp_avgs), like(exp_avg_sqs), like(max_exp_avg_sqs)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("embedding", &embedding);
  m.impl("embedding_dense_backward", &embedding_dense_backward);
  m.impl("index_select", &index_select);
  m.impl("_fused_adam.tensor_lr", &fused_adam);
  m.impl("_fused_adamw.tensor_lr", &fused_adam);
  m.impl("_fused_adam_.tensor_lr", &fused_adam_);
  m.impl("_fused_adamw_.tensor_lr", &fused_adam_);
}

}  // namespace rondo

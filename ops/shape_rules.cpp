// Shape rules (Meta kernels) that LibTorch 2.11 has only in Python, for ops that Rondo's models
// use.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <vector>

namespace rondo {
namespace {

using at::Tensor;

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

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("embedding", &embedding);
  m.impl("embedding_dense_backward", &embedding_dense_backward);
  m.impl("index_select", &index_select);
}

}  // namespace rondo

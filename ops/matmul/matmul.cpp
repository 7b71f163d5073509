#include "ops/matmul/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

namespace rondo {
namespace {

using at::Tensor;

Tensor matmul_cpu(const Tensor& a, const Tensor& b, std::string_view) { return at::mm(a, b); }

Tensor add_matmul_cpu(const Tensor& sum, const Tensor& a, const Tensor& b, std::string_view) {
  return at::addmm(sum, a, b);
}

Tensor& add_matmul_to_cpu(Tensor& sum, const Tensor& a, const Tensor& b, std::string_view) {
  return sum.addmm_(a, b);
}

Tensor matmul_shape(const Tensor& a, const Tensor& b, std::string_view) {
  return at::empty({a.size(0), b.size(1)}, a.options());
}

Tensor add_matmul_shape(const Tensor&, const Tensor& a, const Tensor& b, std::string_view algorithm) {
  return matmul_shape(a, b, algorithm);
}

Tensor& add_matmul_to_shape(Tensor& sum, const Tensor&, const Tensor&, std::string_view) { return sum; }

}  // namespace

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("mm(Tensor a, Tensor b, str algorithm) -> Tensor");
  m.def("addmm(Tensor sum, Tensor a, Tensor b, str algorithm) -> Tensor");
  m.def("addmm_(Tensor(a!) sum, Tensor a, Tensor b, str algorithm) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("mm", &matmul_shape);
  m.impl("addmm", &add_matmul_shape);
  m.impl("addmm_", &add_matmul_to_shape);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("mm", &matmul_cpu);
  m.impl("addmm", &add_matmul_cpu);
  m.impl("addmm_", &add_matmul_to_cpu);
}

}  // namespace rondo

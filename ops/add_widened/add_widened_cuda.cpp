#include "ops/add_widened/add_widened_cuda.h"

#include <torch/library.h>

#include "ops/add_widened/add_widened.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor add_widened_cuda_(const Tensor& sum, const Tensor& x_in) {
  const cuda::Launch launch(sum, "add_widened");
  check_add_widened(sum, x_in);
  if (sum.numel() == 0) return sum;
  const Tensor x = x_in.contiguous();
  cuda::add_widened(sum.mutable_data_ptr(), launch.element(sum), x.const_data_ptr(), launch.element(x),
                    sum.numel(), launch.stream());
  launch.check();
  return sum;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("add_widened_", &add_widened_cuda_); }

}  // namespace rondo

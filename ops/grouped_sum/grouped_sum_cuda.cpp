#include "ops/grouped_sum/grouped_sum_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/grouped_sum/grouped_sum.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

// REQUIRES: contiguous operands.
cuda::GroupedRows grouped_rows(const cuda::Launch& launch, const Tensor& x, const Tensor& ends) {
  return {x.size(0),         x.size(1),          ends.numel(),
          launch.element(x), x.const_data_ptr(), ends.const_data_ptr<std::int32_t>()};
}

Tensor grouped_add_cuda(const Tensor& x_in, const Tensor& bias_in, const Tensor& ends_in) {
  const cuda::Launch launch(x_in, "grouped_add");
  const Tensor result = grouped_add_result(x_in, bias_in, ends_in);
  if (result.numel() == 0) return result;
  const Tensor x = x_in.contiguous(), bias = bias_in.contiguous(), ends = ends_in.contiguous();
  cuda::grouped_add(grouped_rows(launch, x, ends), bias.const_data_ptr(), result.mutable_data_ptr(),
                    launch.stream());
  launch.check();
  return result;
}

Tensor grouped_sum_cuda(const Tensor& x_in, const Tensor& ends_in) {
  const cuda::Launch launch(x_in, "grouped_sum");
  Tensor result = grouped_sum_result(x_in, ends_in);
  if (result.numel() == 0) return result;
  if (x_in.size(0) == 0) return result.zero_();
  const Tensor x = x_in.contiguous(), ends = ends_in.contiguous();
  const cuda::GroupedRows in = grouped_rows(launch, x, ends);
  const Tensor parts = at::empty({cuda::grouped_sum_parts(in), in.width}, x.options().dtype(at::kFloat));
  cuda::grouped_sum(in, parts.mutable_data_ptr<float>(), result.mutable_data_ptr(), launch.stream());
  launch.check();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("grouped_add", &grouped_add_cuda);
  m.impl("grouped_sum", &grouped_sum_cuda);
}

}  // namespace rondo

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/float8/float8_cuda.h"
#include "ops/float8/shared_scale.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

// Returns the matrix of x; a flat x in rows of one tile of the kernel, if its size is a multiple.
cuda::Float8Source source_of(const cuda::Launch& launch, const Tensor& x) {
  constexpr std::int64_t kTile = 128;
  const std::int64_t count = x.numel(), columns = x.dim() > 1          ? x.size(-1)
                                                  : count % kTile == 0 ? kTile
                                                                       : count;
  return {count / columns, columns, launch.element(x), x.const_data_ptr(), /*dense_rows=*/true, columns};
}

Tensor largest_magnitude_cuda(const Tensor& x) {
  const cuda::Launch launch(x, "largest_magnitude");
  Tensor result = largest_magnitude_result(x);
  const cuda::Float8Source source = source_of(launch, x);
  const Tensor workspace =
      at::empty({cuda::float8_workspace(source, cuda::Float8Share::whole)}, result.options());
  cuda::largest_magnitude(source, result.mutable_data_ptr<float>(), workspace.mutable_data_ptr<float>(),
                          launch.stream());
  launch.check();
  return result;
}

std::tuple<Tensor, Tensor> quantize_float8_by_cuda(const Tensor& x, const Tensor& largest,
                                                   at::ScalarType dtype, bool power_of_two) {
  const cuda::Launch launch(x, "quantize_float8_by");
  auto result = quantize_float8_by_result(x, largest, dtype);
  const auto& [values, scale] = result;
  cuda::quantize_float8_by(
      source_of(launch, x), largest.const_data_ptr<float>(),
      {static_cast<std::uint8_t*>(values.mutable_data_ptr()), scale.mutable_data_ptr<float>(), 1, 1,
       dtype == at::kFloat8_e4m3fn ? float8::Format::e4m3 : float8::Format::e5m2, power_of_two},
      launch.stream());
  launch.check();
  return result;
}

Tensor transpose_float8_cuda(const Tensor& x) {
  const cuda::Launch launch(x, "transpose_float8");
  Tensor result = transpose_float8_result(x);
  cuda::transpose_float8(x.size(0), x.size(1), static_cast<const std::uint8_t*>(x.const_data_ptr()),
                         static_cast<std::uint8_t*>(result.mutable_data_ptr()), launch.stream());
  launch.check();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("largest_magnitude", &largest_magnitude_cuda);
  m.impl("quantize_float8_by", &quantize_float8_by_cuda);
  m.impl("transpose_float8", &transpose_float8_cuda);
}

}  // namespace rondo

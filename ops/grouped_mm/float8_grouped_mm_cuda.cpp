// float8_grouped_mm on CUDA: LibTorch's kernel for Hopper, or the emulated product. The kernel
// leaves the rows after the last end unset, so they are zeroed here.
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/_scaled_grouped_mm.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "ops/float8/float8_recipe.h"
#include "ops/grouped_mm/float8_grouped_mm.h"
#include "ops/grouped_mm/grouped_mm_cuda.h"
#include "ops/kernel/launch.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

void require_support(const Tensor& a, const Tensor& scale_a, const Tensor& b) {
  if (b.dim() != 3 || scale_a.size(1) > 1)
    throw Error(ExitCode::environment,
                "quantize.grouped_mm: grouped products with scales of pieces of rows, or of runs of columns, "
                "are emulated only; set emulate = true in its section, which works on any GPU");
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(a.device().index());
  if (has_float8_grouped_products(Float8Recipe::rowwise_with_gw_hp, gpu.major)) return;
  throw Error(ExitCode::environment,
              fmt::format("quantize.grouped_mm.float8: grouped products of float8 require a GPU of compute "
                          "capability 9.0 (Hopper), but {} has {}.{}; set quantize.grouped_mm.float8.emulate "
                          "= true, which works on any GPU",
                          gpu.name, gpu.major, gpu.minor));
}

Tensor float8_grouped_mm_cuda(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                              const Tensor& ends_E, at::ScalarType dtype, bool fast_accumulation,
                              bool emulate) {
  const cuda::Launch launch(a, "float8_grouped_mm");
  if (emulate || (b.dim() == 3 && a.size(0) == 0)) {
    const Tensor result = float8_grouped_mm_result(a, scale_a, b, scale_b, ends_E, dtype);
    return emulate ? emulated_float8_grouped_mm(a, scale_a, b, scale_b, ends_E, dtype) : result;
  }
  require_support(a, scale_a, b);
  const std::int64_t rows = a.size(0), columns = b.size(1), experts = ends_E.numel();
  RONDO_ASSERT(dtype == at::kBFloat16 && a.size(1) % 16 == 0 && columns % 16 == 0 && experts < 1024,
               "float8_grouped_mm: on a GPU, the result must be bf16, sizes of weights multiples of 16, and "
               "runs less than 1,024");
  const Tensor ends = ends_E.contiguous();
  const Tensor result =
      at::_scaled_grouped_mm(a, b.transpose(1, 2), scale_a.view({rows}), scale_b.view({experts, columns}),
                             ends, {}, {}, dtype, fast_accumulation);
  cuda::clear_behind_last(result.mutable_data_ptr(), ends.const_data_ptr<std::int32_t>(), experts, rows,
                          columns * result.element_size(), launch.stream());
  launch.check();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("float8_grouped_mm", &float8_grouped_mm_cuda);
  m.impl("pad_runs", &padded_runs);
  m.impl("quantize_float8_columns", &quantized_columns);
}

}  // namespace rondo

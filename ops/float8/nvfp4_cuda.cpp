#include "ops/float8/nvfp4_cuda.h"

#include <torch/library.h>

#include "ops/float8/nvfp4.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> quantize_nvfp4_cuda(const Tensor& x, bool squares, bool rotate,
                                               std::optional<std::int64_t> stream) {
  const cuda::Launch launch(x, "quantize_nvfp4");
  auto result = quantize_nvfp4_result(x);
  const auto& [values, scales] = result;
  const Nvfp4Operand operand = nvfp4_operand(x, rotate, stream.has_value());
  cuda::quantize_nvfp4(
      {operand.x.const_data_ptr<float>(), x.size(0), x.size(1), squares,
       operand.largest.const_data_ptr<float>(),
       stream ? operand.bits.const_data_ptr<std::int64_t>() : nullptr, stream.value_or(0),
       static_cast<std::uint8_t*>(values.mutable_data_ptr()), scales.mutable_data_ptr<float>()},
      launch.stream());
  launch.check();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("quantize_nvfp4", &quantize_nvfp4_cuda); }

}  // namespace rondo

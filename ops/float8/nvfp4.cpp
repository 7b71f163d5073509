// NVFP4: checks, shape rule, what devices share, and the CPU kernel. The largest magnitude and the
// sum of the bits are LibTorch's; the kernel rounds piece by piece.
#include "ops/float8/nvfp4.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include "ops/float8/nvfp4_math.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Result = std::tuple<Tensor, Tensor>;

// Multiplies each 16 numbers by signs and by the Hadamard matrix of size 16, / 4. The sums have one
// order on all devices. The signs are Transformer Engine's; bit k of the mask is that of number k.
Tensor rotated(const Tensor& x) {
  constexpr std::int64_t kNegative = 0b1101'0111'1110'1000;
  const Tensor places = at::arange(kNvfp4Block, x.options().dtype(at::kLong));
  const Tensor mask = at::full({1}, kNegative, places.options());
  const Tensor signs = 1 - 2 * at::bitwise_and(at::bitwise_right_shift(mask, places), 1).to(at::kFloat);
  Tensor y = x.view({-1, kNvfp4Block}) * signs;
  for (std::int64_t half = 1; half < kNvfp4Block; half *= 2) {
    const Tensor pairs = y.view({-1, 2, half}), first = pairs.select(1, 0), second = pairs.select(1, 1);
    y = at::stack({first + second, first - second}, 1);
  }
  return (y * 0.25).view(x.sizes());
}

Result quantize_nvfp4_cpu(const Tensor& x, bool squares, bool rotate, std::optional<std::int64_t> stream) {
  Result result = quantize_nvfp4_result(x);
  const Nvfp4Operand operand = nvfp4_operand(x, rotate, stream.has_value());
  const nvfp4::Job job{operand.x.const_data_ptr<float>(),
                       x.size(0),
                       x.size(1),
                       squares,
                       operand.largest.const_data_ptr<float>(),
                       stream ? operand.bits.const_data_ptr<std::int64_t>() : nullptr,
                       stream.value_or(0),
                       static_cast<std::uint8_t*>(std::get<0>(result).mutable_data_ptr()),
                       std::get<1>(result).mutable_data_ptr<float>()};
  parallel_for_each(job.pieces(), 1024, [&](std::int64_t i) { nvfp4::quantize_piece(job, i); });
  return result;
}

Result quantize_nvfp4_shape(const Tensor& x, bool, bool, std::optional<std::int64_t>) {
  return quantize_nvfp4_result(x);
}

}  // namespace

Result quantize_nvfp4(const Tensor& x, const Nvfp4Options& options) {
  static const auto handle = op_handle<decltype(quantize_nvfp4_cpu)>("rondo::quantize_nvfp4");
  return handle.call(x, options.squares, options.rotate, options.stream);
}

Result quantize_nvfp4_result(const Tensor& x) {
  check_float("quantize_nvfp4", "x", x);
  RONDO_ASSERT(x.dim() == 2 && x.numel() > 0 && (x.stride(0) == 1 || x.stride(1) == 1),
               "quantize_nvfp4: x must be a matrix with dense rows or dense columns");
  RONDO_ASSERT(x.size(0) % kNvfp4Block == 0 && x.size(1) % kNvfp4Block == 0,
               "quantize_nvfp4: the sizes of x must be multiples of 16");
  return {at::empty(x.sizes(), x.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({x.size(0), x.size(1) / kNvfp4Block}, x.options().dtype(at::kFloat))};
}

Nvfp4Operand nvfp4_operand(const Tensor& x, bool rotate, bool stochastic) {
  Nvfp4Operand operand;
  if (stochastic) {
    const at::ScalarType integers = x.element_size() == 2   ? at::kShort
                                    : x.element_size() == 4 ? at::kInt
                                                            : at::kLong;
    operand.bits = x.view(integers).sum(at::kLong);
  }
  operand.x = x.to(at::kFloat).contiguous();
  if (rotate) operand.x = rotated(operand.x);
  operand.largest = at::abs(operand.x).amax();
  return operand;
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("quantize_nvfp4(Tensor x, bool squares, bool rotate, int? stream) -> (Tensor values, Tensor scales)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("quantize_nvfp4", &quantize_nvfp4_shape); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("quantize_nvfp4", &quantize_nvfp4_cpu); }

}  // namespace rondo

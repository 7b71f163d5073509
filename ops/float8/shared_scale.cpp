#include "ops/float8/shared_scale.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "ops/float8/float8_lines.h"
#include "ops/float8/float8_math.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr std::int64_t kChunk = 4096;  // elements of one task

bool is_float8(const Tensor& x) {
  return x.scalar_type() == at::kFloat8_e4m3fn || x.scalar_type() == at::kFloat8_e5m2;
}

void check_contiguous(const char* op, const Tensor& x) {
  check_float(op, "x", x);
  RONDO_ASSERT(x.numel() > 0 && x.is_contiguous(), std::string(op) + ": x must be contiguous and not empty");
}

Tensor largest_magnitude_cpu(const Tensor& x) {
  Tensor result = largest_magnitude_result(x);
  with_dtype(x, "largest_magnitude", [&](auto type) {
    using T = decltype(type);
    *result.mutable_data_ptr<SumOf<T>>() = largest_magnitude<T>(x, Nans::skipped);
  });
  return result;
}

std::tuple<Tensor, Tensor> quantize_float8_by_cpu(const Tensor& x, const Tensor& largest,
                                                  at::ScalarType dtype, bool power_of_two) {
  auto result = quantize_float8_by_result(x, largest, dtype);
  const auto& [values, scale] = result;
  auto* const to = static_cast<std::uint8_t*>(values.mutable_data_ptr());
  const auto format = dtype == at::kFloat8_e4m3fn ? float8::Format::e4m3 : float8::Format::e5m2;
  with_dtype(x, "quantize_float8_by", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const T* const from = x.const_data_ptr<T>();
    const std::int64_t count = x.numel();
    const float factor =
        float8::factor_of(static_cast<double>(*largest.const_data_ptr<Sum>()), format, power_of_two);
    *scale.mutable_data_ptr<float>() = 1 / factor;
    const auto round = [&](auto constant) {
      for_each_row((count + kChunk - 1) / kChunk, kChunk, [=](std::int64_t chunk) {
        const std::int64_t begin = chunk * kChunk;
        round_line<decltype(constant)::value>(from + begin, std::min(kChunk, count - begin), factor,
                                              to + begin);
      });
    };
    if (format == float8::Format::e4m3)
      return round(std::integral_constant<float8::Format, float8::Format::e4m3>());
    round(std::integral_constant<float8::Format, float8::Format::e5m2>());
  });
  return result;
}

Tensor transpose_float8_cpu(const Tensor& x) {
  Tensor result = transpose_float8_result(x);
  result.view(at::kByte).copy_(x.view(at::kByte).t());
  return result;
}

std::tuple<Tensor, Tensor> quantize_float8_by_shape(const Tensor& x, const Tensor& largest,
                                                    at::ScalarType dtype, bool) {
  return quantize_float8_by_result(x, largest, dtype);
}

}  // namespace

Tensor largest_magnitude_result(const Tensor& x) {
  check_contiguous("largest_magnitude", x);
  return at::empty({1}, x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

std::tuple<Tensor, Tensor> quantize_float8_by_result(const Tensor& x, const Tensor& largest,
                                                     at::ScalarType dtype) {
  check_contiguous("quantize_float8_by", x);
  check_operand("quantize_float8_by", "largest", largest, {1},
                x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor values = at::empty(x.sizes(), x.options().dtype(dtype));
  RONDO_ASSERT(is_float8(values), std::string("quantize_float8_by: dtype is ") + c10::toString(dtype) +
                                      ", but must be a float8 type");
  return {values, at::empty({1, 1}, x.options().dtype(at::kFloat))};
}

Tensor transpose_float8_result(const Tensor& x) {
  RONDO_ASSERT(x.dim() == 2 && x.numel() > 0 && x.is_contiguous() && is_float8(x),
               "transpose_float8: x must be a contiguous matrix of float8");
  return at::empty({x.size(1), x.size(0)}, x.options());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("largest_magnitude(Tensor x) -> Tensor");
  m.def(
      "quantize_float8_by(Tensor x, Tensor largest, ScalarType dtype, bool power_of_two) -> (Tensor values, "
      "Tensor scale)");
  m.def("transpose_float8(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("largest_magnitude", &largest_magnitude_result);
  m.impl("quantize_float8_by", &quantize_float8_by_shape);
  m.impl("transpose_float8", &transpose_float8_result);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("largest_magnitude", &largest_magnitude_cpu);
  m.impl("quantize_float8_by", &quantize_float8_by_cpu);
  m.impl("transpose_float8", &transpose_float8_cpu);
}

}  // namespace rondo

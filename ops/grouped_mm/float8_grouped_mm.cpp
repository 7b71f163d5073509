#include "ops/grouped_mm/float8_grouped_mm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <string>

#include "ops/grouped_mm/grouped_mm.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor float8_grouped_mm_cpu(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                             const Tensor& ends, at::ScalarType dtype, bool, bool emulate) {
  RONDO_ASSERT(emulate, "float8_grouped_mm: a CPU has no products of float8; set emulate");
  float8_grouped_mm_result(a, scale_a, b, scale_b, ends, dtype);
  return emulated_float8_grouped_mm(a, scale_a, b, scale_b, ends, dtype);
}

Tensor float8_grouped_mm_shape(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                               const Tensor& ends, at::ScalarType dtype, bool, bool) {
  return float8_grouped_mm_result(a, scale_a, b, scale_b, ends, dtype);
}

void check_rows(const char* name, const Tensor& values, const Tensor& scales, std::int64_t dims) {
  const std::string op = "float8_grouped_mm: ";
  RONDO_ASSERT(
      values.dim() == dims && values.is_contiguous() && values.scalar_type() == at::kFloat8_e4m3fn,
      op + name + " must be contiguous, of " + std::to_string(dims) + " dimensions and float8_e4m3fn");
  std::vector<std::int64_t> sizes = values.sizes().vec();
  sizes.back() = 1;
  RONDO_ASSERT(scales.sizes() == sizes && scales.scalar_type() == at::kFloat,
               op + name + " must have a float32 scale per row");
}

}  // namespace

Tensor float8_grouped_mm(const Float8Matrix& a, const Float8Matrix& b, const Tensor& ends,
                         at::ScalarType dtype, bool fast_accumulation, bool emulate) {
  static const auto handle = op_handle<decltype(float8_grouped_mm_cpu)>("rondo::float8_grouped_mm");
  return handle.call(std::get<0>(a), std::get<1>(a), std::get<0>(b), std::get<1>(b), ends, dtype,
                     fast_accumulation, emulate);
}

Tensor float8_grouped_mm_result(const Tensor& a, const Tensor& scale_a, const Tensor& b,
                                const Tensor& scale_b, const Tensor& ends, at::ScalarType dtype) {
  check_rows("a", a, scale_a, 2);
  check_rows("b", b, scale_b, 3);
  RONDO_ASSERT(a.size(1) == b.size(2), "float8_grouped_mm: rows of a and b must have the same length");
  RONDO_ASSERT(b.size(0) == ends.numel() && ends.scalar_type() == at::kInt,
               "float8_grouped_mm: b must have one matrix per run, and ends must be int32");
  const Tensor result = at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype));
  check_float("float8_grouped_mm", "the result", result);
  return result;
}

Tensor emulated_float8_grouped_mm(const Tensor& a, const Tensor& scale_a, const Tensor& b,
                                  const Tensor& scale_b, const Tensor& ends, at::ScalarType dtype) {
  const at::ScalarType wide = sum_dtype(dtype);
  const auto dequantized = [&](const Tensor& values, const Tensor& scales) {
    return values.to(wide) * scales.to(wide);
  };
  return grouped_mm(dequantized(a, scale_a), dequantized(b, scale_b).transpose(1, 2), ends).to(dtype);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "float8_grouped_mm(Tensor a, Tensor scale_a, Tensor b, Tensor scale_b, Tensor ends, ScalarType dtype, "
      "bool fast_accumulation, bool emulate) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("float8_grouped_mm", &float8_grouped_mm_shape); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("float8_grouped_mm", &float8_grouped_mm_cpu); }

}  // namespace rondo

#include "ops/grouped_mm/float8_grouped_mm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/float8/float8_lines.h"
#include "ops/float8/tiles.h"
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

// Checks scales of rows, of 32 elements of a row or, for a matrix, of 128, for a stack, of 128 x
// 128.
void check_rows(const char* name, const Tensor& values, const Tensor& scales, std::int64_t dims) {
  const std::string op = "float8_grouped_mm: ";
  RONDO_ASSERT(
      values.dim() == dims && values.is_contiguous() && values.scalar_type() == at::kFloat8_e4m3fn,
      op + name + " must be contiguous, of " + std::to_string(dims) + " dimensions and float8_e4m3fn");
  const std::int64_t rows = values.size(-2), columns = values.size(-1);
  const bool fits = scales.dim() == dims && scales.scalar_type() == at::kFloat &&
                    (dims == 2 || scales.size(0) == values.size(0));
  const auto has = [&](std::int64_t of_rows, std::int64_t of_columns) {
    return fits && scales.size(-2) == of_rows && scales.size(-1) == of_columns;
  };
  const bool squares = dims == 3 && rows % kFloat8Block == 0 && columns % kFloat8Block == 0 &&
                       has(rows / kFloat8Block, (columns / kFloat8Block + 3) / 4 * 4);
  const auto in_pieces = [&](std::int64_t piece) {
    return columns % piece == 0 && has(rows, columns / piece);
  };
  const bool pieces = in_pieces(kMxBlock) || (dims == 2 && in_pieces(kFloat8Block));
  RONDO_ASSERT(has(rows, 1) || pieces || squares,
               op + name + " must have a float32 scale per row, per 1 x 32 or per block of 128");
}

Float8Matrix quantize_float8_columns_result(const Tensor& x, const Tensor& ends) {
  check_float("quantize_float8_columns", "x", x);
  RONDO_ASSERT(x.dim() == 2 && x.numel() > 0 && x.size(0) % kMxBlock == 0,
               "quantize_float8_columns: x must be a matrix whose rows are a multiple of 32");
  RONDO_ASSERT(ends.dim() == 1 && ends.size(0) > 0 && ends.scalar_type() == at::kInt,
               "quantize_float8_columns: ends must be a list of int32");
  return {at::empty({x.size(1), x.size(0)}, x.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({x.size(1), x.size(0) / kMxBlock}, x.options().dtype(at::kFloat))};
}

// Finds the largest magnitude of every run of a line, and rounds the run.
Float8Matrix quantize_float8_columns_cpu(const Tensor& x, const Tensor& ends) {
  Float8Matrix result = quantize_float8_columns_result(x, ends);
  const auto& [values, scales] = result;
  const std::int64_t width = x.size(0), pieces = width / kMxBlock;
  const bool dense = x.stride(0) == 1 || x.stride(1) == 1;
  const Tensor turned = (dense ? x : x.contiguous()).t(), limits = ends.contiguous();
  // Pieces at which the runs end. The rows after the last run count as one more run.
  std::vector<std::int64_t> stops;
  for (std::int64_t run = 0; run < limits.size(0); ++run)
    stops.push_back((limits.const_data_ptr<std::int32_t>()[run] + kMxBlock - 1) / kMxBlock);
  stops.push_back(pieces);
  with_dtype(x, "quantize_float8_columns", [&](auto type) {
    using T = decltype(type);
    for_each_tile<T>(turned, 1, 0,
                     [=, &stops, numbers = static_cast<std::uint8_t*>(values.mutable_data_ptr()),
                      scale = scales.mutable_data_ptr<float>()](const Tile<T>& tile) {
                       for (std::int64_t i = 0; i < tile.rows; ++i) {
                         const std::int64_t row = tile.row + i;
                         std::int64_t begin = 0;
                         for (const std::int64_t stop : stops) {
                           const std::int64_t end = std::min(stop, pieces);
                           if (end <= begin) continue;
                           const std::int64_t first = begin * kMxBlock, count = end * kMxBlock - first;
                           const T* const from = tile.line(i) + first;
                           const float factor = float8::factor_of(
                               static_cast<double>(magnitude_of<T>(largest_bits(from, count, Nans::skipped))),
                               float8::Format::e4m3, /*power_of_two=*/true);
                           round_line<float8::Format::e4m3>(from, count, factor,
                                                            numbers + row * width + first);
                           std::fill(scale + row * pieces + begin, scale + row * pieces + end, 1 / factor);
                           begin = end;
                         }
                       }
                     });
  });
  return result;
}

// Dequantizes a stack as one matrix: its matrices below each other.
Tensor dequantized_stack(const Tensor& values, const Tensor& scales, at::ScalarType dtype) {
  return dequantized(values.flatten(0, 1), scales.flatten(0, 1), dtype).view(values.sizes());
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
  const bool by_rows = b.dim() == 3;
  check_rows("a", a, scale_a, 2);
  check_rows("b", b, scale_b, by_rows ? 3 : 2);
  RONDO_ASSERT(a.size(1) == b.size(-1), "float8_grouped_mm: rows of a and b must have the same length");
  RONDO_ASSERT((!by_rows || b.size(0) == ends.numel()) && ends.scalar_type() == at::kInt,
               "float8_grouped_mm: b must have one matrix per run, and ends must be int32");
  const Tensor result = by_rows ? at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype))
                                : at::empty({ends.numel(), a.size(0), b.size(0)}, a.options().dtype(dtype));
  check_float("float8_grouped_mm", "the result", result);
  return result;
}

Tensor emulated_float8_grouped_mm(const Tensor& a, const Tensor& scale_a, const Tensor& b,
                                  const Tensor& scale_b, const Tensor& ends, at::ScalarType dtype) {
  const at::ScalarType wide = sum_dtype(dtype);
  const Tensor left = a.size(0) == 0 ? a.to(wide) : dequantized(a, scale_a, wide);
  if (b.dim() == 2) return grouped_mm(left, dequantized(b, scale_b, wide).t(), ends).to(dtype);
  return grouped_mm(left, dequantized_stack(b, scale_b, wide).transpose(1, 2), ends).to(dtype);
}

std::tuple<Tensor, Tensor> pad_runs(const Tensor& x, const Tensor& ends, std::int64_t multiple) {
  static const auto handle = op_handle<decltype(padded_runs)>("rondo::pad_runs");
  return handle.call(x, ends, multiple);
}

std::tuple<Tensor, Tensor> pad_runs_result(const Tensor& x, const Tensor& ends, std::int64_t multiple) {
  check_float("pad_runs", "x", x);
  RONDO_ASSERT(x.dim() == 2 && (x.numel() == 0 || x.stride(1) == 1),
               "pad_runs: x must be a matrix with dense rows");
  RONDO_ASSERT(ends.dim() == 1 && ends.size(0) > 0 && ends.scalar_type() == at::kInt,
               "pad_runs: ends must be a list of int32");
  RONDO_ASSERT(multiple > 0, "pad_runs: multiple must be positive");
  const std::int64_t blocks = x.size(0) / multiple + ends.size(0);
  return {at::empty({multiple * blocks, x.size(1)}, x.options()), at::empty(ends.sizes(), ends.options())};
}

// Run e begins at block begin / multiple + e, rounded down. So it ends before the next run begins,
// and no position depends on a sum over the runs before it.
std::tuple<Tensor, Tensor> padded_runs(const Tensor& x, const Tensor& ends, std::int64_t multiple) {
  auto result = pad_runs_result(x, ends, multiple);
  const auto& [padded, padded_ends] = result;
  const std::int64_t rows = x.size(0), runs = ends.size(0);
  const auto options = ends.options().dtype(at::kLong);
  const Tensor limits = ends.to(at::kLong), zero = at::zeros({1}, options),
               blocks = at::floor_divide(limits, multiple) + at::arange(1, runs + 1, options),
               next = blocks * multiple;
  padded_ends.copy_(next);
  if (rows == 0) return padded.zero_(), result;
  const Tensor places = at::arange(padded.size(0), options);
  const Tensor run = at::bucketize(places, next, /*out_int32=*/false, /*right=*/true);  // `runs`: of none
  const auto of_run = [&](const Tensor& first, const Tensor& second) {
    return at::cat({first, second}).index_select(0, run);
  };
  const Tensor row = of_run(zero, limits) + places - of_run(zero, next);
  const Tensor is_padding = row.ge(of_run(limits, limits.narrow(0, runs - 1, 1))).unsqueeze(1);
  padded.copy_(x.index_select(0, row.clamp_max(rows - 1)).masked_fill(is_padding, 0));
  return result;
}

Float8Matrix quantize_float8_columns(const Tensor& x, const Tensor& ends) {
  static const auto handle =
      op_handle<decltype(quantize_float8_columns_cpu)>("rondo::quantize_float8_columns");
  return handle.call(x, ends);
}

// Finds the largest magnitude of every 32 rows, ignoring nans, and from these the largest of every
// run. The rows after the last run count as one more run.
Float8Matrix quantized_columns(const Tensor& x, const Tensor& ends) {
  Float8Matrix result = quantize_float8_columns_result(x, ends);
  const auto& [values, scales] = result;
  const std::int64_t columns = x.size(1), runs = ends.size(0);
  const Tensor pieces = x.t().contiguous().view({columns, -1, kMxBlock}), magnitudes = at::abs(pieces);
  const Tensor most = magnitudes.masked_fill(at::isnan(magnitudes), 0).amax(-1);
  const Tensor limits = ends.to(at::kLong);
  const Tensor run = at::bucketize(at::arange(0, x.size(0), kMxBlock, limits.options()), limits,
                                   /*out_int32=*/false, /*right=*/true);
  const Tensor of_runs = at::zeros({columns, runs + 1}, most.options())
                             .scatter_reduce(1, run.expand(most.sizes()), most, "amax");
  // The power of two below 448 / the largest magnitude (ops/float8/float8_math.h, factor_of).
  const Tensor largest = of_runs.index_select(1, run).to(at::kDouble).clamp_min(1e-12);
  const Tensor ratio = (at::full_like(largest, 448) / largest).to(at::kFloat);
  const Tensor factors =
      at::bitwise_and(ratio.contiguous().view(at::kInt), std::int32_t{-0x800000}).view(at::kFloat);
  const Tensor scaled = (pieces * factors.unsqueeze(-1)).to(at::kFloat);
  values.copy_(scaled.clamp(-448, 448).to(values.scalar_type()).view(values.sizes()));
  scales.copy_(1 / factors);
  return result;
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "float8_grouped_mm(Tensor a, Tensor scale_a, Tensor b, Tensor scale_b, Tensor ends, ScalarType dtype, "
      "bool fast_accumulation, bool emulate) -> Tensor");
  m.def("quantize_float8_columns(Tensor x, Tensor ends) -> (Tensor values, Tensor scales)");
  m.def("pad_runs(Tensor x, Tensor ends, int multiple) -> (Tensor padded, Tensor padded_ends)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("float8_grouped_mm", &float8_grouped_mm_shape);
  m.impl("pad_runs", &pad_runs_result);
  m.impl("quantize_float8_columns", &quantize_float8_columns_result);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("float8_grouped_mm", &float8_grouped_mm_cpu);
  m.impl("pad_runs", &padded_runs);
  m.impl("quantize_float8_columns", &quantize_float8_columns_cpu);
}

}  // namespace rondo

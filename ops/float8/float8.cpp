// Matrices of float8: checks, shape rules, CPU kernels. A tile of the matrix (ops/float8/tiles.h)
// is read twice while a cache holds it: for the largest magnitude of each block, and for rounding.
// The largest magnitude of a whole matrix is found first.
#include "ops/float8/float8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "ops/float8/float8_lines.h"
#include "ops/float8/float8_math.h"
#include "ops/float8/tiles.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

bool is_float8(at::ScalarType dtype) { return dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2; }

// Calls f with the format as a constant.
template <class F>
void with_format(at::ScalarType dtype, const F& f) {
  using enum float8::Format;
  if (dtype == at::kFloat8_e4m3fn) return f(std::integral_constant<float8::Format, e4m3>());
  f(std::integral_constant<float8::Format, e5m2>());
}

// Sizes of a matrix in blocks.
struct Blocks {
  std::int64_t rows, columns;        // of a block
  std::int64_t of_rows, of_columns;  // number of blocks along each dimension

  Blocks(const Tensor& matrix, const Float8Block& block)
      : rows(block.rows == 0 ? matrix.size(0) : block.rows),
        columns(block.columns == 0 ? matrix.size(1) : block.columns),
        of_rows(matrix.size(0) / rows),
        of_columns(matrix.size(1) / columns) {}
};

// Quantizes a matrix with dense rows or dense columns to `result`.
void quantize(const Tensor& x, const Float8Block& block, bool power_of_two, const Float8Matrix& result) {
  const auto& [values, scales] = result;
  const Blocks blocks(x, block);
  const bool is_mx = block.columns == kMxBlock;
  auto* const numbers = static_cast<std::uint8_t*>(values.mutable_data_ptr());
  auto* const scale = scales.mutable_data_ptr<float>();
  const std::int64_t width = x.size(1), scale_row = scales.stride(0), scale_column = scales.stride(1);
  with_dtype(x, "quantize_float8", [&](auto type) {
    using T = decltype(type);
    with_format(values.scalar_type(), [&](auto constant) {
      constexpr float8::Format kFormat = decltype(constant)::value;
      const auto factor_of = [=](SumOf<T> largest) {
        return is_mx ? float8::mx_factor(static_cast<float>(largest))
                     : float8::factor_of(static_cast<double>(largest), kFormat, power_of_two);
      };
      if (block.rows == 0) {
        const float factor = factor_of(largest_magnitude<T>(x, Nans::skipped));
        *scale = 1 / factor;
        return for_each_tile<T>(x, 1, 0, [=](const Tile<T>& tile) {
          for (std::int64_t i = 0; i < tile.rows; ++i)
            round_line<kFormat>(tile.line(i), width, factor, numbers + (tile.row + i) * width);
        });
      }
      const std::int64_t height = blocks.rows, length = blocks.columns;
      for_each_tile<T>(x, height, block.columns, [=](const Tile<T>& tile) {
        for (std::int64_t row = 0; row < tile.rows; row += height)
          for (std::int64_t column = 0; column < tile.columns; column += length) {
            BitsOf<T> largest = 0;
            for (std::int64_t i = 0; i < height; ++i)
              largest = std::max(largest, largest_bits(tile.line(row + i) + column, length,
                                                       is_mx ? Nans::kept : Nans::skipped));
            const float factor = factor_of(magnitude_of<T>(largest));
            const std::int64_t first_row = tile.row + row, first_column = tile.column + column;
            scale[first_row / height * scale_row + first_column / length * scale_column] = 1 / factor;
            for (std::int64_t i = 0; i < height; ++i)
              round_line<kFormat>(tile.line(row + i) + column, length, factor,
                                  numbers + (first_row + i) * width + first_column);
          }
      });
    });
  });
}

Float8Matrix quantize_float8_cpu(const Tensor& x, std::int64_t block_rows, std::int64_t block_columns,
                                 at::ScalarType dtype, bool power_of_two) {
  Float8Matrix result = quantize_float8_result(x, block_rows, block_columns, dtype);
  const auto& [values, scales] = result;
  const Float8Block block = {block_rows, block_columns};
  if (x.dim() == 2) {
    quantize(x, block, power_of_two, result);
  } else if (x.is_contiguous()) {
    quantize(x.flatten(0, 1), block, power_of_two, {values.flatten(0, 1), scales.flatten(0, 1)});
  } else {
    for (std::int64_t i = 0; i < x.size(0); ++i) quantize(x[i], block, power_of_two, {values[i], scales[i]});
  }
  return result;
}

Float8Matrix quantize_float8_runs_cpu(const Tensor& x, const Tensor& ends, std::int64_t block_columns) {
  Float8Matrix result = quantize_float8_runs_result(x, ends, block_columns);
  const auto& [values, scales] = result;
  const std::int64_t rows = x.size(0), filled = ends[-1].item<std::int32_t>();
  RONDO_ASSERT(filled >= 0 && filled <= rows,
               "quantize_float8_runs: ends must be at most the number of rows");
  const auto part = [](const Tensor& t, std::int64_t begin, std::int64_t end) {
    return t.narrow(0, begin, end - begin);
  };
  const Float8Matrix of_runs = {part(values, 0, filled), part(scales, 0, filled)};
  if (filled > 0) quantize(part(x, 0, filled), {1, block_columns}, /*power_of_two=*/true, of_runs);
  part(values, filled, rows).view(at::kByte).zero_();
  part(scales, filled, rows).fill_(1);
  return result;
}

Tensor float8_mm_cpu(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                     at::ScalarType dtype, bool, bool emulate) {
  RONDO_ASSERT(emulate, "float8_mm: a CPU has no products of float8; set emulate");
  float8_mm_result(a, scale_a, b, scale_b, dtype);
  return emulated_float8_mm(a, scale_a, b, scale_b, dtype);
}

Tensor float8_mm_shape(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                       at::ScalarType dtype, bool, bool) {
  return float8_mm_result(a, scale_a, b, scale_b, dtype);
}

Float8Matrix quantize_float8_shape(const Tensor& x, std::int64_t block_rows, std::int64_t block_columns,
                                   at::ScalarType dtype, bool) {
  return quantize_float8_result(x, block_rows, block_columns, dtype);
}

// Multiplies each number by its scale. T: the type of the result. A row is widened whole, since a
// loop over a short piece of bytes would not fill a vector.
template <class T>
void dequantize(const Tensor& values, const Tensor& scales, const Tensor& result) {
  const Blocks blocks(values, float8_block(values, scales));
  const auto* const numbers = static_cast<const std::uint8_t*>(values.const_data_ptr());
  const auto* const scale = scales.const_data_ptr<float>();
  T* const to = result.mutable_data_ptr<T>();
  const std::int64_t height = blocks.rows, width = values.size(1), length = blocks.columns,
                     scale_row = scales.stride(0), scale_column = scales.stride(1);
  with_format(values.scalar_type(), [&](auto constant) {
    constexpr float8::Format kFormat = decltype(constant)::value;
    for_each_row(values.size(0), width, [=](std::int64_t row) {
      const float* const of_row = scale + row / height * scale_row;
      T* const line = to + row * width;
      widen_line<kFormat>(numbers + row * width, width, line);
      for (std::int64_t column = 0; column < width; column += length) {
        const auto factor = static_cast<T>(of_row[column / length * scale_column]);
        for (std::int64_t i = column; i < column + length; ++i) line[i] *= factor;
      }
    });
  });
}

// Returns whether x is a stack of matrices without gaps, each of dense rows or columns.
bool is_dense_stack(const Tensor& x) {
  return x.dim() == 3 && (x.is_contiguous() || x.transpose(1, 2).is_contiguous());
}

std::vector<std::int64_t> scale_sizes(const Blocks& blocks) {
  const bool padded = blocks.rows > 1 && blocks.columns == kFloat8Block;
  return {blocks.of_rows, padded ? (blocks.of_columns + 3) / 4 * 4 : blocks.of_columns};
}

void check_scales(const char* name, const Tensor& values, const Tensor& scales) {
  const std::string op = "float8_mm: ";
  RONDO_ASSERT(values.dim() == 2 && values.is_contiguous() && is_float8(values.scalar_type()),
               op + name + " must be a contiguous matrix of float8");
  RONDO_ASSERT(scales.dim() == 2 && scales.scalar_type() == at::kFloat && scales.size(0) > 0 &&
                   values.size(0) % scales.size(0) == 0,
               op + name + " must have float32 scales of equal blocks of rows");
}

}  // namespace

Float8Matrix quantize_float8(const Tensor& x, Float8Block block, at::ScalarType dtype, bool power_of_two) {
  static const auto handle = op_handle<decltype(quantize_float8_cpu)>("rondo::quantize_float8");
  return handle.call(x, block.rows, block.columns, dtype, power_of_two);
}

Float8Matrix quantize_float8_runs(const Tensor& x, const Tensor& ends, std::int64_t block_columns) {
  static const auto handle = op_handle<decltype(quantize_float8_runs_cpu)>("rondo::quantize_float8_runs");
  return handle.call(x, ends, block_columns);
}

Tensor float8_mm(const Float8Matrix& a, const Float8Matrix& b, at::ScalarType dtype, bool fast_accumulation,
                 bool emulate) {
  static const auto handle = op_handle<decltype(float8_mm_cpu)>("rondo::float8_mm");
  return handle.call(std::get<0>(a), std::get<1>(a), std::get<0>(b), std::get<1>(b), dtype, fast_accumulation,
                     emulate);
}

Float8Matrix quantize_float8_result(const Tensor& x, std::int64_t block_rows, std::int64_t block_columns,
                                    at::ScalarType dtype) {
  check_float("quantize_float8", "x", x);
  const bool squares = block_rows == kFloat8Block && block_columns == kFloat8Block;
  const bool is_mx = block_rows == 1 && block_columns == kMxBlock && dtype == at::kFloat8_e4m3fn;
  const bool is_stack = ((block_rows == 1 && block_columns == 0) || is_mx || squares) && is_dense_stack(x);
  RONDO_ASSERT(x.numel() > 0 && (is_stack || (x.dim() == 2 && (x.stride(0) == 1 || x.stride(1) == 1))),
               "quantize_float8: x must be a matrix with dense rows or dense columns");
  RONDO_ASSERT(is_float8(dtype), std::string("quantize_float8: dtype is ") + c10::toString(dtype) +
                                     ", but must be a float8 type");
  const bool of_rows = block_rows == 1 && (block_columns == 0 || block_columns == kFloat8Block || is_mx);
  const bool square = block_rows == block_columns && (block_rows == 0 || block_rows == kFloat8Block);
  RONDO_ASSERT(of_rows || square, "quantize_float8: unsupported scales of blocks of " +
                                      std::to_string(block_rows) + " x " + std::to_string(block_columns));
  const Tensor matrix = is_stack ? x[0] : x;
  const Blocks blocks(matrix, {block_rows, block_columns});
  RONDO_ASSERT(matrix.size(0) % blocks.rows == 0 && matrix.size(1) % blocks.columns == 0,
               "quantize_float8: the sizes of x must be multiples of its blocks");
  std::vector<std::int64_t> sizes = scale_sizes(blocks);
  if (is_stack) sizes.insert(sizes.begin(), x.size(0));
  const auto options = x.options().dtype(at::kFloat);
  Tensor scales;
  if (block_rows == 1 && !is_stack)
    scales = at::empty_strided(sizes, {1, sizes[0]}, options);
  else if (sizes.back() == blocks.of_columns || x.is_meta())
    scales = at::empty(sizes, options);
  else
    scales = at::zeros(sizes, options);
  return {at::empty(x.sizes(), x.options().dtype(dtype)), scales};
}

Float8Matrix quantize_float8_runs_result(const Tensor& x, const Tensor& ends, std::int64_t block_columns) {
  check_float("quantize_float8_runs", "x", x);
  RONDO_ASSERT(x.dim() == 2 && x.size(1) > 0 && x.stride(1) == 1,
               "quantize_float8_runs: x must be a matrix with dense rows");
  RONDO_ASSERT(ends.dim() == 1 && ends.size(0) > 0 && ends.scalar_type() == at::kInt,
               "quantize_float8_runs: ends must be a list of int32");
  RONDO_ASSERT(block_columns == 0 || ((block_columns == kMxBlock || block_columns == kFloat8Block) &&
                                      x.size(1) % block_columns == 0),
               "quantize_float8_runs: block_columns must be 0, or 32 or 128 with rows of a multiple of it");
  const std::int64_t pieces = block_columns == 0 ? 1 : x.size(1) / block_columns;
  return {at::empty(x.sizes(), x.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({x.size(0), pieces}, x.options().dtype(at::kFloat))};
}

void quantize_mx(const Tensor& x, const Float8Matrix& result) {
  const auto& [values, scales] = result;
  std::vector<std::int64_t> sizes = scales.sizes().vec();
  sizes.push_back(kMxBlock);
  const Tensor pieces = x.contiguous().view(sizes);
  // Floats of biased exponents: the factor of a largest magnitude of 2^e is 2^(8 - e), and a normal
  // number. Without a finite magnitude it is 0.
  const Tensor exponents =
      at::bitwise_right_shift(at::abs(pieces).amax(-1).to(at::kFloat).contiguous().view(at::kInt), 23);
  Tensor factors = at::bitwise_left_shift((262 - exponents).clamp(1, 253), 23).view(at::kFloat);
  factors = factors.masked_fill(exponents == 255, 0);
  const Tensor scaled = (pieces * factors.unsqueeze(-1)).to(at::kFloat);
  values.copy_(scaled.clamp(-448, 448).to(values.scalar_type()).view(x.sizes()));
  scales.copy_(1 / factors);
}

// Scales of rows have no padding.
Float8Block float8_block(const Tensor& values, const Tensor& scales) {
  const std::int64_t rows = values.size(0) / scales.size(0), columns = values.size(1);
  if (rows == 1) return {1, columns / scales.size(1)};
  return {rows, scales.size(1) == 1 || columns <= kFloat8Block ? columns : kFloat8Block};
}

Tensor dequantized(const Tensor& values, const Tensor& scales, at::ScalarType dtype) {
  if (values.is_cpu()) {
    const Tensor result = at::empty(values.sizes(), values.options().dtype(dtype));
    dtype == at::kDouble ? dequantize<double>(values, scales, result)
                         : dequantize<float>(values, scales, result);
    return result;
  }
  const Blocks blocks(values, float8_block(values, scales));
  const Tensor wide = values.to(dtype).view({blocks.of_rows, blocks.rows, blocks.of_columns, blocks.columns});
  const Tensor of_blocks = scales.narrow(1, 0, blocks.of_columns).to(dtype);
  return (wide * of_blocks.unsqueeze(1).unsqueeze(3)).view(values.sizes());
}

Tensor float8_mm_result(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                        at::ScalarType dtype) {
  check_scales("a", a, scale_a);
  check_scales("b", b, scale_b);
  RONDO_ASSERT(a.size(1) == b.size(1), "float8_mm: rows of a and b must have the same length");
  RONDO_ASSERT(a.scalar_type() == at::kFloat8_e4m3fn || b.scalar_type() == at::kFloat8_e4m3fn,
               "float8_mm: a or b must be float8_e4m3fn");
  const Tensor result = at::empty({a.size(0), b.size(0)}, a.options().dtype(dtype));
  check_float("float8_mm", "the result", result);
  return result;
}

Tensor emulated_float8_mm(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                          at::ScalarType dtype) {
  const at::ScalarType wide = sum_dtype(dtype);
  return at::mm(dequantized(a, scale_a, wide), dequantized(b, scale_b, wide).t()).to(dtype);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "quantize_float8(Tensor x, int block_rows, int block_columns, ScalarType dtype, bool power_of_two) -> "
      "(Tensor values, Tensor scales)");
  m.def("quantize_float8_runs(Tensor x, Tensor ends, int block_columns) -> (Tensor values, Tensor scales)");
  m.def(
      "float8_mm(Tensor a, Tensor scale_a, Tensor b, Tensor scale_b, ScalarType dtype, bool "
      "fast_accumulation, bool emulate) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("quantize_float8", &quantize_float8_shape);
  m.impl("quantize_float8_runs", &quantize_float8_runs_result);
  m.impl("float8_mm", &float8_mm_shape);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("quantize_float8", &quantize_float8_cpu);
  m.impl("quantize_float8_runs", &quantize_float8_runs_cpu);
  m.impl("float8_mm", &float8_mm_cpu);
}

}  // namespace rondo

// Matrices of float8 numbers with scales, and their products (Micikevicius et al., "FP8 Formats for
// Deep Learning", 2022, arXiv 2209.05433).
//
//   rondo::quantize_float8(Tensor x, int block_rows, int block_columns, ScalarType dtype,
//                          bool power_of_two) -> (Tensor values, Tensor scales)
//     x [M, K], dense rows or dense columns, f32, bf16 or, on the CPU, f64. values [M, K] are
//     contiguous and of `dtype`: float8_e4m3fn or float8_e5m2. Each block of x has a scale, f32,
//     such that x is about value times scale. The largest magnitude of a block becomes the largest
//     number of dtype or, with power_of_two, at least half of it. A nan becomes the NaN 0x7f; a
//     block with an infinity has no numbers.
//
//       block            scales          layout
//       whole            [1, 1]
//       1 x whole        [M, 1]
//       1 x 128          [M, K / 128]    column-major
//       1 x 32           [M, K / 32]     column-major
//       128 x 128        [M / 128, C]    C: K / 128 rounded up to a multiple of 4; zero padding
//
//     Whole is 0. M and K are multiples of the block. Blocks of 128 are those of the DeepSeek-V3
//     report (2024, arXiv 2412.19437), in the layout that cuBLASLt reads. With 1 x whole, 1 x 32
//     and 128 x 128, x may be a stack [E, M, K] of matrices without gaps, contiguous or each
//     transposed; values are [E, M, K]. E is the first size of the scales, too, and they are
//     row-major.
//
//     1 x 32 is MXFP8 of the OCP Microscaling Formats (MX) Specification (v1.0, 2023, section 6.3):
//     dtype is float8_e4m3fn, power_of_two is true, and a scale is 2^(e - 8) for a largest
//     magnitude in [2^e, 2^(e + 1)), at least 2^-126. Numbers above 448 times the scale saturate. A
//     block with a nan or an infinity has no numbers.
//
//   rondo::quantize_float8_runs(Tensor x, Tensor ends, int block_columns)
//       -> (Tensor values, Tensor scales)
//     The rows of a grouped product (ops/grouped_mm/grouped_mm.h), as by quantize_float8 with 1 x
//     block_columns, 0, 32 or 128, float8_e4m3fn and powers of two. x [N, K] has dense rows; N may
//     be 0. ends int32 [E] is non-decreasing and at most N. Rows after the last end may hold
//     anything: their values are 0 and their scales 1. Scales are row-major.
//
//   rondo::float8_mm(Tensor a, Tensor scale_a, Tensor b, Tensor scale_b, ScalarType dtype,
//                    bool fast_accumulation, bool emulate) -> Tensor
//     a [M, K] and b [N, K] with their scales, as above; not both float8_e5m2, nor both with scales
//     of 128 x 128. Scales of 1 x 32 and of 1 x 16 (ops/float8/nvfp4.h) are emulated only. Returns
//     a times the transpose of b, [M, N] of `dtype`: bf16 or f32, on the CPU f64.
//     `fast_accumulation`: the GPU may accumulate with fewer bits. `emulate`: the dequantized
//     matrices are multiplied in f32 (f64 for f64), on any device. Otherwise the GPU must have
//     float8 products: compute capability 8.9, or 9.0 for blocks of 128 (float8_e4m3fn only) and
//     for scales of rows with f32 results or float8_e5m2. K and N are then multiples of 16.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace rondo {

constexpr std::int64_t kFloat8Block = 128, kMxBlock = 32;

// Rows and columns of the numbers that share a scale; 0: all.
struct Float8Block {
  std::int64_t rows = 0, columns = 0;
};

using Float8Matrix = std::tuple<at::Tensor, at::Tensor>;  // values, scales
Float8Matrix quantize_float8(const at::Tensor& x, Float8Block block, at::ScalarType dtype, bool power_of_two);
Float8Matrix quantize_float8_runs(const at::Tensor& x, const at::Tensor& ends_E,
                                  std::int64_t block_columns = 0);
at::Tensor float8_mm(const Float8Matrix& a, const Float8Matrix& b, at::ScalarType dtype,
                     bool fast_accumulation, bool emulate);

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
// Throw Error(internal) for operands other than described above.
Float8Matrix quantize_float8_result(const at::Tensor& x, std::int64_t block_rows, std::int64_t block_columns,
                                    at::ScalarType dtype);
Float8Matrix quantize_float8_runs_result(const at::Tensor& x, const at::Tensor& ends_E,
                                         std::int64_t block_columns);
at::Tensor float8_mm_result(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                            const at::Tensor& scale_b, at::ScalarType dtype);
// Returns the block of a matrix with these scales, without zeros.
Float8Block float8_block(const at::Tensor& values, const at::Tensor& scales);
// Quantizes a matrix or a stack of them in blocks of 1 x 32 by ops of LibTorch, for devices without
// a kernel for it. The nans of values may be negative.
void quantize_mx(const at::Tensor& x, const Float8Matrix& result);
// Returns values [M, K] times their scales, f32 or f64.
at::Tensor dequantized(const at::Tensor& values, const at::Tensor& scales, at::ScalarType dtype);
// Returns the emulated product.
at::Tensor emulated_float8_mm(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                              const at::Tensor& scale_b, at::ScalarType dtype);

}  // namespace rondo

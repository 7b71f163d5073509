// Products of runs of rows with one matrix each, in float8 (ops/float8/float8.h,
// ops/grouped_mm/grouped_mm.h), without a host sync on devices.
//
//   rondo::float8_grouped_mm(Tensor a, Tensor scale_a, Tensor b, Tensor scale_b, Tensor ends,
//                            ScalarType dtype, bool fast_accumulation, bool emulate) -> Tensor
//     a [N, K], b [E, M, K] -> [N, M]:    rows of run e times the transpose of b[e]
//     a [M, N], b [K, N]    -> [E, M, K]: columns of run e of a times those of b, transposed
//
//     a and b are contiguous, of float8_e4m3fn, with scales as those of quantize_float8 (b of a
//     stack): one per row, per 1 x 32, or in blocks of 128. Returns `dtype`: bf16, and f32, too, if
//     it is emulated; on the CPU f64. Rows after the last end are zero, and columns after it add
//     nothing. `fast_accumulation`: the GPU may accumulate with fewer bits. `emulate`: the
//     dequantized operands are multiplied in f32 (f64 for f64), on any device. Otherwise the GPU
//     must have compute capability 9.0, and the product is of rows with a scale each; K and M are
//     then multiples of 16, and there are less than 1,024 runs.
//
//   rondo::pad_runs(Tensor x, Tensor ends, int multiple) -> (Tensor padded, Tensor padded_ends)
//     Copies runs of rows so that each begins at a multiple of `multiple`, which is positive, with
//     rows of zeros between them: the operand of products whose scales are of `multiple` rows of a
//     run. x [N, K] has dense rows. padded [P, K] is contiguous: P is multiple (N / multiple + E),
//     where the quotient is rounded down. Run e of padded_ends int32 [E] ends where run e + 1
//     begins, so zeros are part of it.
//
//   rondo::quantize_float8_columns(Tensor x, Tensor ends) -> (Tensor values, Tensor scales)
//     x [P, K] and ends [E] are those of pad_runs with a multiple of 32. Quantizes the transpose of
//     x: values [K, P] are contiguous, of float8_e4m3fn. All numbers of a row that are of one run
//     share a scale, a power of two as by quantize_float8 (ops/float8/float8.h). scales [K, P /
//     32], contiguous, repeat it for each 32 numbers. A nan becomes a nan, and a row of a run with
//     an infinity has no numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/float8/float8.h"

namespace rondo {

// Not differentiable. Throw Error(internal) for operands other than described above.
at::Tensor float8_grouped_mm(const Float8Matrix& a, const Float8Matrix& b, const at::Tensor& ends_E,
                             at::ScalarType dtype, bool fast_accumulation, bool emulate);

std::tuple<at::Tensor, at::Tensor> pad_runs(const at::Tensor& x, const at::Tensor& ends_E,
                                            std::int64_t multiple);

Float8Matrix quantize_float8_columns(const at::Tensor& x, const at::Tensor& ends_E);

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
std::tuple<at::Tensor, at::Tensor> pad_runs_result(const at::Tensor& x, const at::Tensor& ends_E,
                                                   std::int64_t multiple);
at::Tensor float8_grouped_mm_result(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                                    const at::Tensor& scale_b, const at::Tensor& ends_E,
                                    at::ScalarType dtype);
// Returns the result of pad_runs, on any device and without a host sync.
std::tuple<at::Tensor, at::Tensor> padded_runs(const at::Tensor& x, const at::Tensor& ends_E,
                                               std::int64_t multiple);
// Returns the result of quantize_float8_columns, likewise, for devices without a kernel for it. The
// nans of values may be negative.
Float8Matrix quantized_columns(const at::Tensor& x, const at::Tensor& ends_E);
// Returns the emulated product.
at::Tensor emulated_float8_grouped_mm(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                                      const at::Tensor& scale_b, const at::Tensor& ends_E,
                                      at::ScalarType dtype);

}  // namespace rondo

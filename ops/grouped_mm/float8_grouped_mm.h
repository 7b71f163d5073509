// Products of runs of rows with one matrix each, in float8 (ops/float8/float8.h,
// ops/grouped_mm/grouped_mm.h), without a host sync on devices.
//
//   rondo::float8_grouped_mm(Tensor a, Tensor scale_a, Tensor b, Tensor scale_b, Tensor ends,
//                            ScalarType dtype, bool fast_accumulation, bool emulate) -> Tensor
//     a [N, K] and b [E, M, K] are contiguous, of float8_e4m3fn, with a scale per row: f32 [N, 1] and
//     [E, M, 1]. Returns rows of run e times the transpose of b[e], [N, M] of `dtype`: bf16, and
//     f32, too, if it is emulated; on the CPU f64. Rows after the last end are zero.
//     `fast_accumulation`: the GPU may accumulate with fewer bits. `emulate`: the dequantized
//     operands are multiplied in f32 (f64 for f64), on any device. Otherwise the GPU must have
//     compute capability 9.0; K and M are then multiples of 16, and there are less than 1,024 runs.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/float8/float8.h"

namespace rondo {

// Not differentiable. Throws Error(internal) for operands other than described above.
at::Tensor float8_grouped_mm(const Float8Matrix& a, const Float8Matrix& b, const at::Tensor& ends_E,
                             at::ScalarType dtype, bool fast_accumulation, bool emulate);

// Checks the operands and allocates the result, for the kernels of every device and the shape rule.
at::Tensor float8_grouped_mm_result(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                                    const at::Tensor& scale_b, const at::Tensor& ends_E,
                                    at::ScalarType dtype);
// Returns the emulated product.
at::Tensor emulated_float8_grouped_mm(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                                      const at::Tensor& scale_b, const at::Tensor& ends_E,
                                      at::ScalarType dtype);

}  // namespace rondo

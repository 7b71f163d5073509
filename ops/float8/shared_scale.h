// Float8 tensors of one scale that ranks share: each rank quantizes its part by the largest
// magnitude of all parts, and the parts are gathered as float8. The bits are those of
// rondo::quantize_float8 of the whole (ops/float8/float8.h).
//
//   rondo::largest_magnitude(Tensor x) -> Tensor
//     x is contiguous, not empty, f32, bf16 or, on the CPU, f64. Returns [1], f32 or, for f64, f64:
//     the largest absolute value of x, without nans.
//
//   rondo::quantize_float8_by(Tensor x, Tensor largest, ScalarType dtype, bool power_of_two)
//       -> (Tensor values, Tensor scale)
//     x as above; `largest` as largest_magnitude returns it. values have the sizes of x, are
//     contiguous and of `dtype`: float8_e4m3fn or float8_e5m2. scale is [1, 1], f32.
//
//   rondo::transpose_float8(Tensor x) -> Tensor
//     x [M, K] is contiguous and of a float8 type. Returns its transpose [K, M], contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rondo {

// Check the operands and allocate the results, for the kernels of every device and the shape rules.
// Throw Error(internal) for operands other than described above.
at::Tensor largest_magnitude_result(const at::Tensor& x);
std::tuple<at::Tensor, at::Tensor> quantize_float8_by_result(const at::Tensor& x, const at::Tensor& largest,
                                                             at::ScalarType dtype);
at::Tensor transpose_float8_result(const at::Tensor& x);

}  // namespace rondo

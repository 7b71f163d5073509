// Checks operands of ops, for kernels of every device and shape rules. Throws Error(internal) that
// names the op and the operand.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Requires that x is f32, bf16 or, except on CUDA, f64.
void check_float(const char* op, const char* name, const at::Tensor& x);

// Requires that x has these sizes and this dtype.
void check_operand(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef sizes,
                   at::ScalarType dtype);

// Returns the value of a number on the CPU. REQUIRES: an operand that was checked to be f32 [].
inline float number(const at::Tensor& scalar) { return *scalar.const_data_ptr<float>(); }

}  // namespace rondo

// Operands of ops checked, in kernels of every device and in shape rules alike. What does not hold ends in
// Error(internal), which names the op and the operand.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// x is f32, bf16 or, but on CUDA, f64.
void check_float(const char* op, const char* name, const at::Tensor& x);

// x has these sizes and this dtype.
void check_operand(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef sizes,
                   at::ScalarType dtype);

}  // namespace rondo

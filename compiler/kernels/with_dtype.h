// The dtypes of the fused kernels on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "parallel/error.h"

namespace rondo {

// Calls f with a number of the tensor's type, float or at::BFloat16; others are refused in the name of `op`.
template <class F>
void with_dtype(const at::Tensor& tensor, const char* op, F&& f) {
  if (tensor.scalar_type() == at::kFloat) return f(float());
  RONDO_ASSERT(tensor.scalar_type() == at::kBFloat16, std::string(op) + " is for float32 and bfloat16");
  f(at::BFloat16());
}

}  // namespace rondo

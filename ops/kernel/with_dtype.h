// The dtypes of the fused kernels on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Calls f with a number of the tensor's type. REQUIRES: float32 or bfloat16, as fused_ops.h checks.
template <class F>
void with_dtype(const at::Tensor& tensor, F&& f) {
  if (tensor.scalar_type() == at::kBFloat16) return f(at::BFloat16());
  f(float());
}

}  // namespace rondo

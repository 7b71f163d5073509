// Maps the dtype of a tensor to a C++ type, for kernels on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "support/error.h"

namespace rondo {

// Calls f(T()) with the type of the tensor's elements: f32, bf16 or f64. Throws Error(internal)
// with the op's name for any other.
template <class F>
void with_dtype(const at::Tensor& tensor, const char* op, const F& f) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return f(float());
    case at::kBFloat16:
      return f(at::BFloat16());
    case at::kDouble:
      return f(double());
    default:
      throw Error(ExitCode::internal,
                  std::string(op) + " does not support elements of " + c10::toString(tensor.scalar_type()));
  }
}

// Returns the dtype of sums of a dtype or of a tensor's elements: f64 for f64, otherwise f32.
inline at::ScalarType sum_dtype(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
inline at::ScalarType sum_dtype(const at::Tensor& tensor) { return sum_dtype(tensor.scalar_type()); }

}  // namespace rondo

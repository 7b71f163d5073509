// The addresses of tensors, for calls of kernels.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

inline void* memory(const at::Tensor& x) { return x.mutable_data_ptr(); }
inline float* floats(const at::Tensor& x) { return x.mutable_data_ptr<float>(); }

}  // namespace rondo

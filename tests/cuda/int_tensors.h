// Tensors of int32 for kernels of tokens and documents.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rondo {

at::Tensor ints(const std::vector<std::int32_t>& values);
const std::int32_t* data(const at::Tensor& x);

}  // namespace rondo

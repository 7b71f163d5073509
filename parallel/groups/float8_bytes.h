// Float8 in all-gathers: Gloo knows no float8, and NCCL only in some versions.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace rondo {

// Returns the bytes of a float8 tensor, and other tensors as they are.
inline at::Tensor float8_as_bytes(const at::Tensor& x) {
  return at::isFloat8Type(x.scalar_type()) ? x.view(at::kByte) : x;
}
inline std::vector<at::Tensor> float8_as_bytes(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> bytes;
  for (const at::Tensor& x : tensors) bytes.push_back(float8_as_bytes(x));
  return bytes;
}

}  // namespace rondo

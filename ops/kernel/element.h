// Element types of Rondo's kernels. No LibTorch.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rondo {

// The type of sums: float for f32 and bf16, double for f64.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

namespace cuda {

// The dtype of a CUDA kernel's operands, which are plain addresses.
enum class Element : std::uint8_t { f32, bf16, f64 };

}  // namespace cuda
}  // namespace rondo

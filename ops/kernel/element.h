// Types of elements that kernels of ours know. No LibTorch.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rondo {

// What elements of a type are summed in: f32 and bf16 in float, f64 in double.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

namespace cuda {

// The dtype of a CUDA kernel's operands, which are plain addresses.
enum class Element : std::uint8_t { f32, bf16, f64 };

}  // namespace cuda
}  // namespace rondo

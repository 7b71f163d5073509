// Types of elements that kernels of ours know.
#pragma once

#include <cstdint>

namespace rondo::cuda {

enum class Element : std::uint8_t { f32, bf16, f64 };

}  // namespace rondo::cuda

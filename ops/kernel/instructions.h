// The vector instructions that kernels on the CPU may use.
#pragma once

#include <cstdint>

namespace rondo {

#ifdef __x86_64__
enum class VectorInstructions : std::uint8_t { any, avx2, avx512 };

// Returns the best set that the processor has and ATEN_CPU_CAPABILITY permits: the set that
// LibTorch's kernels use.
VectorInstructions best_vector_instructions();
#endif

}  // namespace rondo

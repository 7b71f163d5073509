// The vector instructions that LibTorch and Rondo use of a CPU, in words.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Returns the best set, and the cost of bf16 with it: "AVX2; bf16 products are computed in f32
// ...". `features` are those of support/machine/machine.h. `capability` is the value of
// ATEN_CPU_CAPABILITY, which lowers the set ("avx2", "default"); "" if not set.
std::string instructions_text(const std::vector<std::string>& features, const std::string& capability);

// The same for this process's environment.
std::string instructions_text(const std::vector<std::string>& features);

}  // namespace rondo

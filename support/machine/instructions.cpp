#include "support/machine/instructions.h"

#include <algorithm>
#include <cstdlib>

namespace rondo {

std::string instructions_text(const std::vector<std::string>& features, const std::string& capability) {
  const auto has = [&](const char* feature) {
    return std::find(features.begin(), features.end(), feature) != features.end();
  };
  const bool lower = capability == "avx2" || capability == "default";
  const std::string set = lower ? " (ATEN_CPU_CAPABILITY=" + capability + ")" : "";
  if (has("avx512f") && !lower) {
    if (has("amx_bf16")) return "AVX-512 and AMX, with bf16 products";
    return has("avx512_bf16") ? "AVX-512 with bf16 products" : "AVX-512; no bf16 products, they are widened";
  }
  const std::string widened =
      "; bf16 products are computed in f32: bf16 saves memory, but a step takes at least as long as in f32";
  if (has("avx2") && capability != "default") return "AVX2" + set + widened;
  if (has("sse4_2")) return "no AVX2" + set + widened;
  if (!has("asimd")) return "unknown";
  return std::string(has("sve") ? "SVE" : "NEON") +
         (has("bf16") ? " with bf16 products" : "; no bf16 products");
}

std::string instructions_text(const std::vector<std::string>& features) {
  const char* const capability = std::getenv("ATEN_CPU_CAPABILITY");
  return instructions_text(features, capability == nullptr ? "" : capability);
}

}  // namespace rondo

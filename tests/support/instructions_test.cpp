#include "support/machine/instructions.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("the best vector instructions are named, with the cost of bf16") {
  const std::vector<std::string> avx2 = {"sse4_2", "avx2", "fma"},
                                 avx512 = {"sse4_2", "avx2", "fma", "avx512f", "avx512_bf16"};
  CHECK_THAT(instructions_text(avx2, ""),
             StartsWith("AVX2; ") && ContainsSubstring("bf16 products are computed in f32"));
  CHECK(instructions_text(avx512, "") == "AVX-512 with bf16 products");
  CHECK(instructions_text({"avx2", "avx512f"}, "") == "AVX-512; no bf16 products, they are widened");
  CHECK(instructions_text({"avx512f", "avx512_bf16", "amx_bf16"}, "") ==
        "AVX-512 and AMX, with bf16 products");
  CHECK_THAT(instructions_text({"sse4_2"}, ""), StartsWith("no AVX2; bf16 products are computed in f32"));
  CHECK(instructions_text({"asimd", "sve", "bf16"}, "") == "SVE with bf16 products");
  CHECK(instructions_text({"asimd"}, "") == "NEON; no bf16 products");
  CHECK(instructions_text({}, "") == "unknown");
}

TEST_CASE("ATEN_CPU_CAPABILITY lowers the named set") {
  const std::vector<std::string> avx512 = {"sse4_2", "avx2", "fma", "avx512f", "avx512_bf16"};
  CHECK_THAT(instructions_text(avx512, "avx2"), StartsWith("AVX2 (ATEN_CPU_CAPABILITY=avx2); bf16 products"));
  CHECK_THAT(instructions_text(avx512, "default"),
             StartsWith("no AVX2 (ATEN_CPU_CAPABILITY=default); bf16 products"));
  CHECK(instructions_text(avx512, "avx512") == instructions_text(avx512, ""));
}

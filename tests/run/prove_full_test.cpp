// Every layout of up to 8 ranks and every way to train, for every model, against one rank. Label `full`.
#include <catch2/catch_test_macros.hpp>

#include "tests/run/runs.h"

namespace rondo {
namespace {

constexpr int kPatience_ms = 3 * 3600 * 1000;

void prove_all(const std::string& model) {
  const ProgramResult proved = run_program(
      {kRondo, "prove", RONDO_SOURCE_DIR "/configs/" + model + "_debug.toml", "--all", "--fuzz", "50"},
      kPatience_ms);
  INFO(proved.output);
  CHECK(proved.exit_code == 0);
}

TEST_CASE("Llama 3 equals one rank in every layout and every way to train") { prove_all("llama3"); }
TEST_CASE("DeepSeek-V3 equals one rank in every layout and every way to train") { prove_all("deepseek_v3"); }
TEST_CASE("Qwen3 equals one rank in every layout and every way to train") { prove_all("qwen3"); }
TEST_CASE("Qwen3 MoE equals one rank in every layout and every way to train") { prove_all("qwen3_moe"); }
TEST_CASE("OLMo 2 equals one rank in every layout and every way to train") { prove_all("olmo2"); }
TEST_CASE("gpt-oss equals one rank in every layout and every way to train") { prove_all("gpt_oss"); }
TEST_CASE("Llama 4 equals one rank in every layout and every way to train") { prove_all("llama4"); }
TEST_CASE("Kimi K2 equals one rank in every layout and every way to train") { prove_all("kimi_k2"); }

}  // namespace
}  // namespace rondo

// Tests every layout of up to 8 ranks and every setting of training, for every model, against one
// rank. Label `full`.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

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

TEST_CASE("Llama 3 equals one rank in every layout with every setting") { prove_all("llama3"); }
TEST_CASE("DeepSeek-V3 equals one rank in every layout with every setting") { prove_all("deepseek_v3"); }
TEST_CASE("Qwen3 equals one rank in every layout with every setting") { prove_all("qwen3"); }
TEST_CASE("Qwen3 MoE equals one rank in every layout with every setting") { prove_all("qwen3_moe"); }
TEST_CASE("OLMo 2 equals one rank in every layout with every setting") { prove_all("olmo2"); }
TEST_CASE("gpt-oss equals one rank in every layout with every setting") { prove_all("gpt_oss"); }
TEST_CASE("Llama 4 equals one rank in every layout with every setting") { prove_all("llama4"); }
TEST_CASE("blockwise float8 equals one rank in layouts of every kind, with every setting") {
  const std::string float8 =
      ",model.converters=float8,quantize.linear.float8.emulate=true,quantize.linear.float8.recipe_name="
      "blockwise,"
      "model.dim=256,model.n_heads=4,model.n_kv_heads=4,model.head_dim=64,model.ffn_hidden_dim=256,training."
      "seq_len=";
  Words words = {kRondo, "prove", RONDO_SOURCE_DIR "/configs/llama3_debug.toml"};
  for (const char* layout :
       {"dp_replicate=2", "accumulate=2", "pp=2,accumulate=4", "dp_shard=2,compile.memory_policy=full",
        "dp_shard=2,tp=2,compile.enable=false", "dp_shard=2,compile.numerics=rounds"})
    words.insert(words.end(), {"--layout", layout + float8 + "128"});
  words.insert(words.end(), {"--layout", "cp=2" + float8 + "512"});
  const ProgramResult proved = run_program(words, kPatience_ms);
  INFO(proved.output);
  CHECK(proved.exit_code == 0);
}
// A block has 128 rows of one expert. Ranks that share no experts group other rows.
TEST_CASE("experts in blocks of float8 equal one rank with expert parallelism, and differ without") {
  const auto proved = [](const std::string& layout) {
    return run_program({kRondo, "prove", RONDO_SOURCE_DIR "/configs/deepseek_v3_debug.toml", "--layout",
                        layout + ",model.converters=quantize.grouped_mm.float8,"
                                 "quantize.grouped_mm.float8.fqns=experts,"
                                 "quantize.grouped_mm.float8.emulate=true,"
                                 "quantize.grouped_mm.float8.recipe_name=blockwise,"
                                 "model.dim=128,model.moe_hidden_dim=128"},
                       kPatience_ms);
  };
  CHECK(proved("dp_shard=2,ep=2").exit_code == 0);
  CHECK(proved("dp_shard=2,ep=2,parallelism.expert_parallel_comm_backend=standard").exit_code == 0);
  const ProgramResult other = proved("dp_shard=2");
  CHECK(other.exit_code == 8);
  CHECK_THAT(other.output, Catch::Matchers::ContainsSubstring("differs: gradient of layers.2.moe.experts"));
}
TEST_CASE("Kimi K2 equals one rank in every layout with every setting") { prove_all("kimi_k2"); }

}  // namespace
}  // namespace rondo
